"""DELETE /letta/v1/agents/{agent_id}/memory/block/{block_label}: detach a memory block from an agent."""

from turnstone.dialects.letta.blocks import LettaMemory, memory_of
from turnstone.dialects.letta.ids import bare
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def remove_memory_block(request: Request) -> Reply:
    agent_id, label = bare("agent", request.path_params["agent_id"]), request.path_params["block_label"]
    agent = request.use_cases.letta_agents.read(request.caller, agent_id)
    request.use_cases.blocks.detach(request.caller, agent_id, agent.block(label).block_id)
    return reply(memory_of(request.use_cases.letta_agents.read(request.caller, agent_id), request.caller.tenant))


PATH = "/letta/v1/agents/{agent_id}/memory/block/{block_label}"
ROUTE = Route("DELETE", PATH, remove_memory_block, LettaMemory, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads=("blocks", "letta_agents"))
