"""The routes of this family as one function: they are rarely requested, and share a warm one."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.family_routes import FamilyRoutes

TABLE = {
    "GET /v1/shields/{identifier+}": "get_shield",
    "GET /v1/shields": "list_shields",
    "POST /v1/shields": "register_shield",
    "POST /v1/safety/run-shield": "run_shield",
    "DELETE /v1/shields/{identifier+}": "unregister_shield",
}
ROUTES = FamilyRoutes(__package__, TABLE)
handler = LambdaHandler(__name__, family=ROUTES, loads="shields")
