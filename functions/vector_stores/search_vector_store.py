"""POST /v1/openai/v1/vector_stores/{vector_store_id}/search: find chunks of the files of a vector store."""

from turnstone.dialects.openai.vector_stores.searches import SearchVectorStore, StoreResults
from turnstone.domain.errors import ContentLost, ModelBusy, ModelError, ModelTimedOut
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, json_reply, wire_json
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def search_vector_store(request: Request) -> FileReply:
    body, store_id = parse(request, SearchVectorStore), request.path_params["vector_store_id"]
    questions = body.to_questions()
    hits = request.use_cases.vector_stores.search(request.caller, store_id, questions, request.provider_data)
    return json_reply(wire_json(StoreResults.of(body.query, hits)))


PATH = "/v1/openai/v1/vector_stores/{vector_store_id}/search"
ROUTE = Route(
    "POST",
    PATH,
    search_vector_store,
    StoreResults,
    SearchVectorStore,
    raises=(ContentLost, ModelBusy, ModelError, ModelTimedOut),
    dialect=OPENAI,
    stores=False,
)
handler = LambdaHandler(__name__, ROUTE, loads="vector_stores")
