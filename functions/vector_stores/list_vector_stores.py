"""GET /v1/openai/v1/vector_stores: the vector stores that the caller may see, newest first."""

from turnstone.dialects.openai.vector_stores.entries import STORES_QUERY, stores_in_query
from turnstone.dialects.openai.vector_stores.stores import VectorStoreList
from turnstone.domain.errors import StoreUnavailable
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, json_reply, wire_json
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_vector_stores(request: Request) -> FileReply:
    query = stores_in_query(request.query)
    return json_reply(wire_json(VectorStoreList.of(request.use_cases.vector_stores.list(request.caller, query))))


PATH = "/v1/openai/v1/vector_stores"
ROUTE = Route(
    "GET",
    PATH,
    list_vector_stores,
    VectorStoreList,
    query=STORES_QUERY,
    raises=(StoreUnavailable,),
    dialect=OPENAI,
    stores=False,
)
handler = LambdaHandler(__name__, ROUTE, loads="vector_stores")
