"""POST /letta/v1/agents/{agent_id}/memory/block: add a memory block to an agent."""

from turnstone.dialects.letta.blocks import CreateBlock, LettaMemory, memory_of
from turnstone.dialects.letta.ids import bare
from turnstone.domain.errors import LabelTaken
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def add_memory_block(request: Request) -> Reply:
    new = parse(request, CreateBlock).to_new()
    agent_id = bare("agent", request.path_params["agent_id"])
    request.use_cases.blocks.add(request.caller, agent_id, new)
    return reply(memory_of(request.use_cases.letta_agents.read(request.caller, agent_id), request.caller.tenant))


PATH = "/letta/v1/agents/{agent_id}/memory/block"
ROUTE = Route("POST", PATH, add_memory_block, LettaMemory, CreateBlock, raises=(LabelTaken,), dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads=("blocks", "letta_agents"))
