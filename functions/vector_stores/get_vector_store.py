"""GET /v1/openai/v1/vector_stores/{vector_store_id}: a vector store."""

from turnstone.dialects.openai.vector_stores.stores import VectorStoreObject
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_vector_store(request: Request) -> Reply:
    state = request.use_cases.vector_stores.get(request.caller, request.path_params["vector_store_id"])
    return reply(VectorStoreObject.of(state))


PATH = "/v1/openai/v1/vector_stores/{vector_store_id}"
ROUTE = Route("GET", PATH, get_vector_store, VectorStoreObject, dialect=OPENAI, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="vector_stores")
