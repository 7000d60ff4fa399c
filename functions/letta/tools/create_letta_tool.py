"""POST /letta/v1/tools: create a tool of Python, whose source is parsed and not run."""

from turnstone.dialects.letta.custom.requests import CreateTool
from turnstone.dialects.letta.tools import LettaTool, stored_tool_of
from turnstone.domain.errors import ToolNameTaken
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def create_letta_tool(request: Request) -> Reply:
    new = parse(request, CreateTool).to_new()
    tool = request.use_cases.letta_tools.create(request.caller, new, request.attempt)
    return reply(stored_tool_of(tool, request.caller.tenant))


PATH = "/letta/v1/tools"
ROUTE = Route("POST", PATH, create_letta_tool, LettaTool, CreateTool, raises=(ToolNameTaken,), dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_tools")
