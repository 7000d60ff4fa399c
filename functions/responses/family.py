"""The routes of responses as one function, which streams."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.family_routes import FamilyRoutes

TABLE = {
    "POST /v1/openai/v1/responses": "create_response",
    "GET /v1/openai/v1/responses": "list_responses",
    "GET /v1/openai/v1/responses/{response_id}": "get_response",
    "DELETE /v1/openai/v1/responses/{response_id}": "delete_response",
    "POST /v1/openai/v1/responses/{response_id}/cancel": "cancel_response",
    "GET /v1/openai/v1/responses/{response_id}/input_items": "list_input_items",
}
ROUTES = FamilyRoutes(__package__, TABLE)
handler = LambdaHandler(__name__, family=ROUTES, loads=("responses", "turns", "events", "cancelling"))
