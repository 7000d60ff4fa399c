"""GET /letta/v1/health: whether the server answers."""

from turnstone.dialects.letta.server.models import LettaHealth
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def letta_health(_: Request) -> Reply:
    return reply(LettaHealth())


ROUTE = Route("GET", "/letta/v1/health", letta_health, LettaHealth, is_brief=True, is_open=True, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE)
