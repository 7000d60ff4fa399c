"""GET /v1/tools: the tools that run on the server, of one toolgroup or of all."""

from turnstone.dialects.llama_stack.registry_replies import ToolList, tool_list
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.routes import Reply, Request, Route, reply


def list_tools(request: Request) -> Reply:
    groups = request.query.get(GROUP, ())
    return reply(tool_list(request.application.toolgroups.tools(groups, GROUP)))


GROUP = "toolgroup_id"
QUERY = {GROUP: "Only the tools of this group."}
ROUTE = Route("GET", "/v1/tools", list_tools, ToolList, query=QUERY)
handler = LambdaHandler(__name__, ROUTE, loads="toolgroups")
