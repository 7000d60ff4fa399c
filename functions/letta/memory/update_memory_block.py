"""PATCH /letta/v1/agents/{agent_id}/memory/block/{block_label}: change a memory block of an agent."""

from turnstone.dialects.letta.blocks import BlockUpdate, LettaBlock, block_of
from turnstone.dialects.letta.ids import bare
from turnstone.domain.errors import LabelTaken
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def update_memory_block(request: Request) -> Reply:
    changes = parse(request, BlockUpdate).to_changes()
    agent_id, label = bare("agent", request.path_params["agent_id"]), request.path_params["block_label"]
    agent = request.use_cases.letta_agents.read(request.caller, agent_id)
    block = request.use_cases.blocks.change(request.caller, agent.block(label).block_id, changes)
    return reply(block_of(block.block, request.caller.tenant, agent.owner))


PATH = "/letta/v1/agents/{agent_id}/memory/block/{block_label}"
ROUTE = Route("PATCH", PATH, update_memory_block, LettaBlock, BlockUpdate, raises=(LabelTaken,), dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads=("blocks", "letta_agents"))
