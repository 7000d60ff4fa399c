"""POST /v1/vector-io/query: search a vector database."""

from turnstone.dialects.llama_stack.memory.vector_io import FoundChunks, QueryChunks, found_chunks
from turnstone.domain.errors import ContentLost, ModelBusy, ModelError, ModelTimedOut, NotFound
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def query_chunks(request: Request) -> Reply:
    body = parse(request, QueryChunks)
    searching = request.use_cases.searching
    hits = searching.search(request.caller, body.vector_db_id, body.to_question(), request.provider_data)
    return reply(found_chunks(hits))


ROUTE = Route(
    "POST",
    "/v1/vector-io/query",
    query_chunks,
    FoundChunks,
    QueryChunks,
    raises=(ContentLost, ModelBusy, ModelError, ModelTimedOut, NotFound),
    stores=False,
)
handler = LambdaHandler(__name__, ROUTE, loads="searching")
