"""GET /v1/shields: the shields that agents can name."""

from turnstone.dialects.llama_stack.shields import ShieldList
from turnstone.domain.errors import StoreUnavailable
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_shields(request: Request) -> Reply:
    return reply(ShieldList(data=request.use_cases.shields.list(request.caller)))


ROUTE = Route("GET", "/v1/shields", list_shields, ShieldList, raises=(StoreUnavailable,))
handler = LambdaHandler(__name__, ROUTE, loads="shields")
