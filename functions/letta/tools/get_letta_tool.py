"""GET /letta/v1/tools/{tool_id}: a tool."""

from turnstone.dialects.letta.tools import LettaTool, tool_of_id, tool_shown
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_letta_tool(request: Request) -> Reply:
    found = request.use_cases.letta_tools.find(request.caller, tool_of_id(request.path_params["tool_id"]))
    return reply(tool_shown(found, request.caller))


PATH = "/letta/v1/tools/{tool_id}"
ROUTE = Route("GET", PATH, get_letta_tool, LettaTool, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_tools")
