"""PATCH /letta/v1/blocks/{block_id}: change a memory block; the next inference of each of its agents shows it."""

from turnstone.dialects.letta.blocks import BlockUpdate, LettaBlock, stored_block_of
from turnstone.dialects.letta.ids import bare
from turnstone.domain.errors import LabelTaken
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def update_block(request: Request) -> Reply:
    changes, block_id = parse(request, BlockUpdate).to_changes(), bare("block", request.path_params["block_id"])
    block = request.use_cases.blocks.change(request.caller, block_id, changes)
    return reply(stored_block_of(block, request.caller.tenant))


PATH = "/letta/v1/blocks/{block_id}"
ROUTE = Route("PATCH", PATH, update_block, LettaBlock, BlockUpdate, raises=(LabelTaken,), dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="blocks")
