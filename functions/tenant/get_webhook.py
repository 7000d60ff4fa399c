"""GET /v1/webhooks/{webhook_id}: a webhook, without its secret."""

from turnstone.dialects.llama_stack.webhooks import WebhookEntry
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_webhook(request: Request) -> Reply:
    webhook = request.use_cases.webhooks.get(request.caller, request.path_params["webhook_id"])
    return reply(WebhookEntry.of(webhook))


ROUTE = Route("GET", "/v1/webhooks/{webhook_id}", get_webhook, WebhookEntry)
handler = LambdaHandler(__name__, ROUTE, loads="webhooks")
