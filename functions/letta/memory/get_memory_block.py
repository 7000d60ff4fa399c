"""GET /letta/v1/agents/{agent_id}/memory/block/{block_label}: a memory block of an agent."""

from turnstone.dialects.letta.blocks import LettaBlock, block_of
from turnstone.dialects.letta.ids import bare
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_memory_block(request: Request) -> Reply:
    agent_id, label = bare("agent", request.path_params["agent_id"]), request.path_params["block_label"]
    agent = request.use_cases.letta_agents.read(request.caller, agent_id)
    return reply(block_of(agent.block(label), request.caller.tenant, agent.owner))


PATH = "/letta/v1/agents/{agent_id}/memory/block/{block_label}"
ROUTE = Route("GET", PATH, get_memory_block, LettaBlock, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_agents")
