"""PATCH /letta/v1/tools/{tool_id}: change a tool of Python, for the next call of each of its agents."""

from turnstone.dialects.letta.custom.requests import UpdateTool
from turnstone.dialects.letta.tools import LettaTool, custom_id, stored_tool_of
from turnstone.domain.errors import ToolNameTaken
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def update_letta_tool(request: Request) -> Reply:
    change, tool_id = parse(request, UpdateTool).to_change(), custom_id(request.path_params["tool_id"])
    tool = request.use_cases.letta_tools.change(request.caller, tool_id, change)
    return reply(stored_tool_of(tool, request.caller.tenant))


PATH = "/letta/v1/tools/{tool_id}"
ROUTE = Route("PATCH", PATH, update_letta_tool, LettaTool, UpdateTool, raises=(ToolNameTaken,), dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_tools")
