"""The routes of this family as one function: they are rarely requested, and share a warm one."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.family_routes import FamilyRoutes

TABLE = {
    "GET /v1/usage": "get_usage",
    "GET /v1/agents/{agent_id}/session/{session_id}/context": "get_context",
}
ROUTES = FamilyRoutes(__package__, TABLE)
handler = LambdaHandler(__name__, family=ROUTES, loads=("usage", "contexts"))
