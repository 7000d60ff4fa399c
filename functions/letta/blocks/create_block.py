"""POST /letta/v1/blocks: create a memory block that no agent has yet."""

from turnstone.dialects.letta.blocks import CreateBlock, LettaBlock, stored_block_of
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def create_block(request: Request) -> Reply:
    new = parse(request, CreateBlock).to_new()
    block = request.use_cases.blocks.create(request.caller, new, request.attempt)
    return reply(stored_block_of(block, request.caller.tenant))


PATH = "/letta/v1/blocks"
ROUTE = Route("POST", PATH, create_block, LettaBlock, CreateBlock, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="blocks")
