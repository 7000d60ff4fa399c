"""PUT /letta/v1/tools: create a tool of Python, or replace the one of its name."""

from turnstone.dialects.letta.custom.requests import CreateTool
from turnstone.dialects.letta.tools import LettaTool, stored_tool_of
from turnstone.domain.errors import Forbidden, ToolNameTaken
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def upsert_letta_tool(request: Request) -> Reply:
    new = parse(request, CreateTool).to_new()
    tool = request.use_cases.letta_tools.upsert(request.caller, new, request.attempt)
    return reply(stored_tool_of(tool, request.caller.tenant))


PATH = "/letta/v1/tools"
RAISES = (Forbidden, ToolNameTaken)
ROUTE = Route("PUT", PATH, upsert_letta_tool, LettaTool, CreateTool, raises=RAISES, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_tools")
