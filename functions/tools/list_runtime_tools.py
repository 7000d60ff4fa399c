"""GET /v1/tool-runtime/list-tools: the tools that run on the server as a model is told of them."""

from turnstone.dialects.llama_stack.registry_replies import RuntimeToolList, runtime_tool_list
from turnstone.dialects.llama_stack.registry_requests import refuse_mcp_endpoint
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.routes import Reply, Request, Route, reply


def list_runtime_tools(request: Request) -> Reply:
    refuse_mcp_endpoint(request.query)
    tools = request.application.toolgroups.tools(request.query.get(GROUP, ()), GROUP)
    return reply(runtime_tool_list(tools))


GROUP = "tool_group_id"
QUERY = {GROUP: "Only the tools of this group."}
ROUTE = Route("GET", "/v1/tool-runtime/list-tools", list_runtime_tools, RuntimeToolList, query=QUERY)
handler = LambdaHandler(__name__, ROUTE, loads="toolgroups")
