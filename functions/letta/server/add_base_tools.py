"""POST /letta/v1/tools/add-base-tools: the base tools, which every tenant has already."""

from turnstone.dialects.letta.tools import LettaTools, base_tools
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def add_base_tools(request: Request) -> Reply:
    return reply(base_tools(request.caller))


ROUTE = Route("POST", "/letta/v1/tools/add-base-tools", add_base_tools, LettaTools, stores=False, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE)
