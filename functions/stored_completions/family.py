"""The routes of this family as one function, which streams: stored completions may outgrow a buffered answer."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.family_routes import FamilyRoutes

TABLE = {
    "GET /v1/openai/v1/chat/completions": "list_chat_completions",
    "GET /v1/openai/v1/chat/completions/{completion_id}": "get_chat_completion",
    "POST /v1/openai/v1/chat/completions/{completion_id}": "update_chat_completion",
    "DELETE /v1/openai/v1/chat/completions/{completion_id}": "delete_chat_completion",
    "GET /v1/openai/v1/chat/completions/{completion_id}/messages": "list_chat_completion_messages",
}
ROUTES = FamilyRoutes(__package__, TABLE)
handler = LambdaHandler(__name__, family=ROUTES, loads="stored_completions")
