"""GET /v1/tools/{tool_name}: a tool that runs on the server."""

from turnstone.dialects.llama_stack.tool_replies import Tool, tool_reply
from turnstone.domain.errors import CredentialsMissing, CredentialsRefused, ToolgroupUnavailable
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_tool(request: Request) -> Reply:
    return reply(tool_reply(*request.use_cases.toolgroups.tool(request.caller, request.path_params["tool_name"])))


RAISES = (CredentialsMissing, CredentialsRefused, ToolgroupUnavailable)
ROUTE = Route("GET", "/v1/tools/{tool_name}", get_tool, Tool, raises=RAISES, takes_slashes=True)
handler = LambdaHandler(__name__, ROUTE, loads="toolgroups")
