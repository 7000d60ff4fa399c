"""GET /v1/vector-dbs/{vector_db_id}: a vector database."""

from turnstone.dialects.llama_stack.memory.vector_dbs import VectorDb, vector_db_of
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_vector_db(request: Request) -> Reply:
    return reply(
        vector_db_of(request.use_cases.banks.get(request.caller, request.path_params["vector_db_id"], "vector"))
    )


ROUTE = Route("GET", "/v1/vector-dbs/{vector_db_id}", get_vector_db, VectorDb, takes_slashes=True)
handler = LambdaHandler(__name__, ROUTE, loads="banks")
