"""The routes of September 2024 that make and delete agents and sessions as one function: they share a warm one."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.family_routes import FamilyRoutes

TABLE = {
    "POST /agents/create": "create_agent",
    "POST /agents/session/create": "create_session",
    "POST /agents/delete": "delete_agent",
    "POST /agents/session/delete": "delete_session",
}
ROUTES = FamilyRoutes(__package__, TABLE)
handler = LambdaHandler(__name__, family=ROUTES, loads=("agents", "sessions", "deleting"))
