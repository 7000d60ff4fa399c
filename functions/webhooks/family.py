"""The routes of this family as one function: they are rarely requested, and share a warm one."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.family_routes import FamilyRoutes

TABLE = {
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
handler = LambdaHandler(__name__, family=ROUTES, loads="webhooks")
