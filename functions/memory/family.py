"""The routes of this family as one function: they share the indexes that it has loaded."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.family_routes import FamilyRoutes

TABLE = {
    "GET /v1/vector-dbs/{vector_db_id+}": "get_vector_db",
    "GET /v1/vector-dbs": "list_vector_dbs",
    "POST /v1/vector-dbs": "register_vector_db",
    "DELETE /v1/vector-dbs/{vector_db_id+}": "unregister_vector_db",
    "POST /v1/vector-io/insert": "insert_chunks",
    "POST /v1/vector-io/query": "query_chunks",
}
ROUTES = FamilyRoutes(__package__, TABLE)
handler = LambdaHandler(__name__, family=ROUTES, loads="banks")
