"""GET /v1/vector-dbs: the vector databases that the caller may see."""

from turnstone.dialects.llama_stack.memory.vector_dbs import VectorDbList, vector_db_of
from turnstone.domain.errors import StoreUnavailable
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_vector_dbs(request: Request) -> Reply:
    banks = request.use_cases.banks.list(request.caller, "vector")
    return reply(VectorDbList(data=tuple(map(vector_db_of, banks))))


ROUTE = Route("GET", "/v1/vector-dbs", list_vector_dbs, VectorDbList, raises=(StoreUnavailable,))
handler = LambdaHandler(__name__, ROUTE, loads="banks")
