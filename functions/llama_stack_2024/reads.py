"""The routes of September 2024 that read turns as one function: they are rarely requested, and share a warm one."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.family_routes import FamilyRoutes

TABLE = {
    "GET /agents/step/get": "get_step",
    "GET /agents/turn/get": "get_turn",
    "POST /agents/step/get": "read_step",
    "POST /agents/turn/get": "read_turn",
}
ROUTES = FamilyRoutes(__package__, TABLE)
handler = LambdaHandler(__name__, family=ROUTES, loads="reader")
