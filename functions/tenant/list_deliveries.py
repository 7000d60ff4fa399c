"""GET /v1/webhooks/{webhook_id}/deliveries: the deliveries of a webhook, newest first."""

from turnstone.dialects.llama_stack.webhooks import QUERY, DeliveryEntry, DeliveryList, deliveries_in_query
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_deliveries(request: Request) -> Reply:
    webhook_id, query = request.path_params["webhook_id"], deliveries_in_query(request.query)
    page = request.use_cases.webhooks.deliveries(request.caller, webhook_id, query)
    data = tuple(map(DeliveryEntry.of, page.deliveries))
    return reply(DeliveryList(data=data, has_more=page.cursor is not None, cursor=page.cursor))


ROUTE = Route("GET", "/v1/webhooks/{webhook_id}/deliveries", list_deliveries, DeliveryList, query=QUERY)
handler = LambdaHandler(__name__, ROUTE, loads="webhooks")
