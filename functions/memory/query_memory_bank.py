"""POST /v1/memory-banks/{memory_bank_id}/query: query a memory bank of any kind."""

from turnstone.dialects.llama_stack.memory.bank_queries import QueryMemoryBank, RecalledChunks, recalled_chunks
from turnstone.domain.errors import ContentLost, ModelBusy, ModelError, ModelTimedOut
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def query_memory_bank(request: Request) -> Reply:
    query, bank_id = parse(request, QueryMemoryBank).to_query(), request.path_params["memory_bank_id"]
    hits = request.use_cases.recalling.query(request.caller, bank_id, query, request.provider_data)
    return reply(recalled_chunks(hits))


ROUTE = Route(
    "POST",
    "/v1/memory-banks/{memory_bank_id}/query",
    query_memory_bank,
    RecalledChunks,
    QueryMemoryBank,
    raises=(ContentLost, ModelBusy, ModelError, ModelTimedOut),
    stores=False,
)
handler = LambdaHandler(__name__, ROUTE, loads="recalling")
