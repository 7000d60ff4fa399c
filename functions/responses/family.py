"""The routes of responses and conversations as one function, which streams."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.family_routes import FamilyRoutes

TABLE = {
    "POST /v1/openai/v1/responses": "create_response",
    "GET /v1/openai/v1/responses": "list_responses",
    "GET /v1/openai/v1/responses/{response_id}": "get_response",
    "DELETE /v1/openai/v1/responses/{response_id}": "delete_response",
    "POST /v1/openai/v1/responses/{response_id}/cancel": "cancel_response",
    "GET /v1/openai/v1/responses/{response_id}/input_items": "list_input_items",
    "POST /v1/openai/v1/conversations": "create_conversation",
    "GET /v1/openai/v1/conversations/{conversation_id}": "get_conversation",
    "POST /v1/openai/v1/conversations/{conversation_id}": "update_conversation",
    "DELETE /v1/openai/v1/conversations/{conversation_id}": "delete_conversation",
    "POST /v1/openai/v1/conversations/{conversation_id}/items": "add_items",
    "GET /v1/openai/v1/conversations/{conversation_id}/items": "list_items",
    "GET /v1/openai/v1/conversations/{conversation_id}/items/{item_id}": "get_item",
    "DELETE /v1/openai/v1/conversations/{conversation_id}/items/{item_id}": "delete_item",
}
ROUTES = FamilyRoutes(__package__, TABLE)
handler = LambdaHandler(__name__, family=ROUTES, loads=("responses", "conversations", "turns", "events", "cancelling"))
