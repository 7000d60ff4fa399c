"""DELETE /v1/vector-dbs/{vector_db_id}: delete a vector database with its chunks."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, null
from turnstone.http.request import Request
from turnstone.http.route import Null, Route


def unregister_vector_db(request: Request) -> Reply:
    request.use_cases.banks.delete(request.caller, request.path_params["vector_db_id"], "vector")
    return null()


ROUTE = Route("DELETE", "/v1/vector-dbs/{vector_db_id}", unregister_vector_db, Null, takes_slashes=True)
handler = LambdaHandler(__name__, ROUTE, loads="banks")
