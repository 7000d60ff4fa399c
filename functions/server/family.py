"""The routes of this family as one function: they are rarely requested, and share a warm one."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.family_routes import FamilyRoutes

TABLE = {
    "GET /v1/docs": "get_docs",
    "GET /v1/openapi.json": "get_openapi",
    "GET /": "get_root",
    "GET /v1/health": "health",
    "GET /v1/version": "version",
}
ROUTES = FamilyRoutes(__package__, TABLE)
handler = LambdaHandler(__name__, family=ROUTES)
