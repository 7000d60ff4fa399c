"""GET /v1/health: whether the server answers."""

from turnstone.dialects.llama_stack.replies import Health
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def health(_: Request) -> Reply:
    return reply(Health())


ROUTE = Route("GET", "/v1/health", health, Health, is_brief=True, is_open=True)
handler = LambdaHandler(__name__, ROUTE)
