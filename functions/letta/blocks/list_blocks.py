"""GET /letta/v1/blocks: the memory blocks that the caller may see, in the order of their creation."""

from turnstone.dialects.letta.blocks import LettaBlocks, stored_block_of
from turnstone.dialects.letta.lists import BLOCKS_QUERY, blocks_query
from turnstone.domain.errors import NotFound
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_blocks(request: Request) -> Reply:
    found = request.use_cases.blocks.list(request.caller, blocks_query(request.query))
    return reply(LettaBlocks(tuple(stored_block_of(block, request.caller.tenant) for block in found)))


PATH = "/letta/v1/blocks"
ROUTE = Route("GET", PATH, list_blocks, LettaBlocks, query=BLOCKS_QUERY, raises=(NotFound,), dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="blocks")
