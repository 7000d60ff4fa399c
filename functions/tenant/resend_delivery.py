"""POST …/deliveries/{delivery_id}/resend: send an event to a webhook again, at once and with all its tries."""

from turnstone.dialects.llama_stack.webhooks import DeliveryEntry
from turnstone.domain.errors import InvalidRequest
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def resend_delivery(request: Request) -> Reply:
    ids = request.path_params
    delivery = request.use_cases.webhooks.resend(request.caller, ids["webhook_id"], ids["delivery_id"], request.attempt)
    return reply(DeliveryEntry.of(delivery))


PATH = "/v1/webhooks/{webhook_id}/deliveries/{delivery_id}/resend"
ROUTE = Route("POST", PATH, resend_delivery, DeliveryEntry, raises=(InvalidRequest,))
handler = LambdaHandler(__name__, ROUTE, loads="webhooks")
