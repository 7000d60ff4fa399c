"""DELETE /letta/v1/blocks/{block_id}: delete a memory block, which disappears from the prompts of its agents."""

from turnstone.dialects.letta.blocks import LettaBlock, stored_block_of
from turnstone.dialects.letta.ids import bare
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def delete_block(request: Request) -> Reply:
    block = request.use_cases.blocks.delete(request.caller, bare("block", request.path_params["block_id"]))
    return reply(stored_block_of(block, request.caller.tenant))


PATH = "/letta/v1/blocks/{block_id}"
ROUTE = Route("DELETE", PATH, delete_block, LettaBlock, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="blocks")
