"""GET /v1/tool-runtime/list-tools: tools that run on the server, or on an MCP server, as GET /v1/tools lists them."""

from typing import Any

from turnstone.dialects.llama_stack.tool_replies import JSON_LINES, ToolList, tool_lines, tool_list
from turnstone.dialects.llama_stack.tool_requests import mcp_endpoint_in
from turnstone.domain.errors import CredentialsMissing, CredentialsRefused, ToolgroupUnavailable
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_runtime_tools(request: Request) -> Reply:
    toolgroups, caller, keys = request.use_cases.toolgroups, request.caller, request.provider_data
    uri = mcp_endpoint_in(request.query)
    there = toolgroups.tools_at(caller, keys, uri) if uri else ()
    if uri is None or GROUP in request.query:
        there += toolgroups.tools(caller, keys, request.query.get(GROUP, ()), GROUP)
    if JSON_LINES in request.headers.get("accept", ""):
        return Reply(tool_lines(there), content_type=JSON_LINES)
    return reply(tool_list(there))


GROUP = "tool_group_id"
QUERY: dict[str, str | dict[str, Any]] = {
    GROUP: "Only the tools of this group.",
    "mcp_endpoint[uri]": {"description": "Those of this MCP server.", "schema": {"type": "string", "format": "uri"}},
}
ROUTE = Route(
    "GET",
    "/v1/tool-runtime/list-tools",
    list_runtime_tools,
    ToolList,
    query=QUERY,
    raises=(CredentialsMissing, CredentialsRefused, ToolgroupUnavailable),
)
handler = LambdaHandler(__name__, ROUTE, loads="toolgroups")
