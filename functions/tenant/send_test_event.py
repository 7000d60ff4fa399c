"""POST /v1/webhooks/{webhook_id}/test: send a webhook an event of the type `webhook.test`."""

from turnstone.dialects.llama_stack.webhooks import DeliveryEntry
from turnstone.domain.errors import InvalidRequest
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def send_test_event(request: Request) -> Reply:
    webhook_id = request.path_params["webhook_id"]
    return reply(DeliveryEntry.of(request.use_cases.webhooks.send_test(request.caller, webhook_id, request.attempt)))


ROUTE = Route("POST", "/v1/webhooks/{webhook_id}/test", send_test_event, DeliveryEntry, raises=(InvalidRequest,))
handler = LambdaHandler(__name__, ROUTE, loads="webhooks")
