"""POST /memory/query: query a memory bank, as clients up to 0.1.0 do."""

from turnstone.dialects.llama_stack.memory.bank_queries import RecalledChunks, recalled_chunks
from turnstone.dialects.llama_stack.memory.older_requests import QueryBank
from turnstone.domain.errors import ContentLost, ModelBusy, ModelError, ModelTimedOut, NotFound
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def query_bank(request: Request) -> Reply:
    body = parse(request, QueryBank)
    hits = request.use_cases.recalling.query(request.caller, body.bank_id, body.to_query(), request.provider_data)
    return reply(recalled_chunks(hits))


ROUTE = Route(
    "POST",
    "/memory/query",
    query_bank,
    RecalledChunks,
    QueryBank,
    raises=(ContentLost, ModelBusy, ModelError, ModelTimedOut, NotFound),
    stores=False,
)
handler = LambdaHandler(__name__, ROUTE, loads="recalling")
