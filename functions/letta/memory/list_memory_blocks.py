"""GET /letta/v1/agents/{agent_id}/memory/block: the memory blocks of an agent."""

from turnstone.dialects.letta.blocks import LettaBlocks, blocks_of
from turnstone.dialects.letta.ids import bare
from turnstone.dialects.letta.lists import PART_QUERY, part_of
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_memory_blocks(request: Request) -> Reply:
    agent_id = bare("agent", request.path_params["agent_id"])
    agent = request.use_cases.letta_agents.read(request.caller, agent_id)
    blocks = blocks_of(agent.blocks, request.caller.tenant, agent.owner)
    return reply(LettaBlocks(part_of("block", blocks, request.query)))


PATH = "/letta/v1/agents/{agent_id}/memory/block"
ROUTE = Route("GET", PATH, list_memory_blocks, LettaBlocks, query=PART_QUERY, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_agents")
