"""POST /v1/tool-runtime/rag-tool/query: search several vector databases for an answer."""

from turnstone.dialects.llama_stack.memory.rag import QueryRag, RagResult, rag_result
from turnstone.domain.errors import ContentLost, ModelBusy, ModelError, ModelTimedOut, NotFound
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def query_rag(request: Request) -> Reply:
    body = parse(request, QueryRag)
    text, provider_data = body.text(), request.provider_data
    queries = request.use_cases.rag_queries
    result = queries.query(request.caller, body.vector_db_ids, text, body.query_config, provider_data)
    return reply(rag_result(result.content, result.metadata))


ROUTE = Route(
    "POST",
    "/v1/tool-runtime/rag-tool/query",
    query_rag,
    RagResult,
    QueryRag,
    raises=(ContentLost, ModelBusy, ModelError, ModelTimedOut, NotFound),
    stores=False,
)
handler = LambdaHandler(__name__, ROUTE, loads="rag_queries")
