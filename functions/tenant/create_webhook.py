"""POST /v1/webhooks: create a webhook, and show its secret this once."""

from turnstone.dialects.llama_stack.webhooks import CreateWebhook, WebhookWithSecret
from turnstone.domain.errors import NotFound
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, wire_json
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def create_webhook(request: Request) -> Reply:
    body = parse(request, CreateWebhook)
    webhook, secret = request.use_cases.webhooks.create(request.caller, body.to_webhook(), request.attempt)
    return Reply(wire_json(WebhookWithSecret.revealed(webhook, secret)), about={"webhook_id": webhook.webhook_id})


ROUTE = Route("POST", "/v1/webhooks", create_webhook, WebhookWithSecret, CreateWebhook, raises=(NotFound,))
handler = LambdaHandler(__name__, ROUTE, loads="webhooks")
