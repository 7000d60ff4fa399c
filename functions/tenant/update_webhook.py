"""POST /v1/webhooks/{webhook_id}: change URL, event types or description of a webhook, disable or enable it."""

from turnstone.dialects.llama_stack.webhooks import UpdateWebhook, WebhookEntry
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def update_webhook(request: Request) -> Reply:
    body, webhook_id = parse(request, UpdateWebhook), request.path_params["webhook_id"]
    webhook = request.use_cases.webhooks.update(request.caller, webhook_id, body.changes, request.attempt)
    return reply(WebhookEntry.of(webhook))


ROUTE = Route("POST", "/v1/webhooks/{webhook_id}", update_webhook, WebhookEntry, UpdateWebhook)
handler = LambdaHandler(__name__, ROUTE, loads="webhooks")
