"""GET /v1/tools: the tools that run on the server, of one toolgroup or of all."""

from turnstone.dialects.llama_stack.tool_replies import ToolList, tool_list
from turnstone.domain.errors import CredentialsMissing, CredentialsRefused, ToolgroupUnavailable
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_tools(request: Request) -> Reply:
    groups = request.query.get(GROUP, ())
    there = request.use_cases.toolgroups.tools(request.caller, request.provider_data, groups, GROUP)
    return reply(tool_list(there))


GROUP = "toolgroup_id"
QUERY = {GROUP: "Only the tools of this group."}
RAISES = (CredentialsMissing, CredentialsRefused, ToolgroupUnavailable)
ROUTE = Route("GET", "/v1/tools", list_tools, ToolList, query=QUERY, raises=RAISES)
handler = LambdaHandler(__name__, ROUTE, loads="toolgroups")
