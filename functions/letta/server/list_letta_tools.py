"""GET /letta/v1/tools: the tools that agents may have."""

from turnstone.dialects.letta.tools import LettaTools, base_tools
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_letta_tools(request: Request) -> Reply:
    return reply(base_tools(request.caller))


ROUTE = Route("GET", "/letta/v1/tools", list_letta_tools, LettaTools, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE)
