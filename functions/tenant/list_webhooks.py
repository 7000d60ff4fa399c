"""GET /v1/webhooks: the webhooks of the caller's tenant, oldest first and without their secrets."""

from turnstone.dialects.llama_stack.webhooks import WebhookEntry, WebhookList
from turnstone.domain.errors import StoreUnavailable
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_webhooks(request: Request) -> Reply:
    return reply(WebhookList(data=tuple(map(WebhookEntry.of, request.use_cases.webhooks.list(request.caller)))))


ROUTE = Route("GET", "/v1/webhooks", list_webhooks, WebhookList, raises=(StoreUnavailable,))
handler = LambdaHandler(__name__, ROUTE, loads="webhooks")
