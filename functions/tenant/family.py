"""The routes about a tenant as a whole, usage and webhooks, as one function: they are rarely requested."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.family_routes import FamilyRoutes

TABLE = {
    "GET /v1/usage": "get_usage",
    "GET /v1/agents/{agent_id}/session/{session_id}/context": "get_context",
    "POST /v1/webhooks": "create_webhook",
    "GET /v1/webhooks": "list_webhooks",
    "GET /v1/webhooks/{webhook_id}": "get_webhook",
    "POST /v1/webhooks/{webhook_id}": "update_webhook",
    "DELETE /v1/webhooks/{webhook_id}": "delete_webhook",
    "POST /v1/webhooks/{webhook_id}/rotate_secret": "rotate_webhook_secret",
    "POST /v1/webhooks/{webhook_id}/test": "send_test_event",
    "GET /v1/webhooks/{webhook_id}/deliveries": "list_deliveries",
    "POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/resend": "resend_delivery",
}
ROUTES = FamilyRoutes(__package__, TABLE)
handler = LambdaHandler(__name__, family=ROUTES, loads=("usage", "contexts", "webhooks"))
