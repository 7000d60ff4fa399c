"""GET /v1/openai/v1/vector_stores/{vector_store_id}: a vector store."""

from turnstone.dialects.openai.vector_stores.stores import VectorStoreObject
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, json_reply, wire_json
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_vector_store(request: Request) -> FileReply:
    state = request.use_cases.vector_stores.get(request.caller, request.path_params["vector_store_id"])
    return json_reply(wire_json(VectorStoreObject.of(state)))


PATH = "/v1/openai/v1/vector_stores/{vector_store_id}"
ROUTE = Route("GET", PATH, get_vector_store, VectorStoreObject, dialect=OPENAI, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="vector_stores")
