"""The routes of September 2024 that stream as one function: turns, and sessions, which may be large."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.family_routes import FamilyRoutes

TABLE = {
    "POST /agents/turn/create": "create_turn",
    "POST /agents/session/get": "get_session",
}
ROUTES = FamilyRoutes(__package__, TABLE)
handler = LambdaHandler(__name__, family=ROUTES, loads=("turns", "sessions"))
