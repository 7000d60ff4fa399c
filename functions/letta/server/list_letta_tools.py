"""GET /letta/v1/tools: the tools that agents may have, base tools first, then tools of Python, oldest first."""

from turnstone.dialects.letta.tools import TOOLS_QUERY, LettaTools, tools_listed, tools_query
from turnstone.domain.errors import NotFound
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_letta_tools(request: Request) -> Reply:
    found = request.use_cases.letta_tools.list(request.caller, tools_query(request.query))
    return reply(tools_listed(found, request.caller))


PATH = "/letta/v1/tools"
ROUTE = Route("GET", PATH, list_letta_tools, LettaTools, query=TOOLS_QUERY, raises=(NotFound,), dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_tools")
