"""GET /v1/tools: the tools that run on the server, of one toolgroup or of all."""

from turnstone.dialects.llama_stack.replies import ToolList, tool_reply
from turnstone.http.routes import Reply, Request, Route, reply


def list_tools(request: Request) -> Reply:
    tools = request.application.tools
    groups = request.query.get("toolgroup_id") or tools.groups()
    found = [tool_reply(tool.definition, group) for group in groups for tool in tools.offered([group])]
    return reply(ToolList(data=tuple(found)))


ROUTE = Route("GET", "/v1/tools", list_tools, ToolList)
