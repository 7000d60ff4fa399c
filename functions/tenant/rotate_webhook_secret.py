"""POST /v1/webhooks/{webhook_id}/rotate_secret: give a webhook a new secret, and show it this once."""

from turnstone.dialects.llama_stack.webhooks import WebhookWithSecret
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, wire_json
from turnstone.http.request import Request
from turnstone.http.route import Route


def rotate_webhook_secret(request: Request) -> Reply:
    webhook_id = request.path_params["webhook_id"]
    webhook, secret = request.use_cases.webhooks.rotate_secret(request.caller, webhook_id, request.attempt)
    return Reply(wire_json(WebhookWithSecret.revealed(webhook, secret)))


ROUTE = Route("POST", "/v1/webhooks/{webhook_id}/rotate_secret", rotate_webhook_secret, WebhookWithSecret)
handler = LambdaHandler(__name__, ROUTE, loads="webhooks")
