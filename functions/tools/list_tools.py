"""GET /v1/tools: the tools that run on the server, of one toolgroup or of all."""

from turnstone.dialects.llama_stack.registry_replies import ToolList, tool_reply
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.routes import Reply, Request, Route, reply


def list_tools(request: Request) -> Reply:
    tools = request.application.tools
    groups = request.query.get("toolgroup_id") or tools.groups()
    found = [tool_reply(tool.definition, group) for group in groups for tool in tools.offered([group])]
    return reply(ToolList(data=tuple(found)))


QUERY = {"toolgroup_id": "Only the tools of this group."}
ROUTE = Route("GET", "/v1/tools", list_tools, ToolList, query=QUERY)
handler = LambdaHandler(__name__, ROUTE, loads="tools")
