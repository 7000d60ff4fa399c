"""DELETE /v1/webhooks/{webhook_id}: delete a webhook; it gets no further request."""

from turnstone.dialects.llama_stack.webhooks import WebhookDeleted
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def delete_webhook(request: Request) -> Reply:
    webhook_id = request.path_params["webhook_id"]
    request.use_cases.webhooks.delete(request.caller, webhook_id)
    return reply(WebhookDeleted(webhook_id=webhook_id))


ROUTE = Route("DELETE", "/v1/webhooks/{webhook_id}", delete_webhook, WebhookDeleted)
handler = LambdaHandler(__name__, ROUTE, loads="webhooks")
