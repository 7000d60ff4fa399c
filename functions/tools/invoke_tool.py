"""POST /v1/tool-runtime/invoke: have a tool run, outside of any turn."""

from turnstone.dialects.llama_stack.tool_replies import ToolRun, tool_run_reply
from turnstone.dialects.llama_stack.tool_requests import InvokeTool
from turnstone.domain.errors import CredentialsMissing, CredentialsRefused, NotFound, ToolgroupUnavailable
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def invoke_tool(request: Request) -> Reply:
    body = parse(request, InvokeTool)
    called = body.tool_name, body.arguments, request.attempt, request.stop
    group, result, has_failed = request.use_cases.toolgroups.invoke(request.caller, *called)
    return reply(tool_run_reply(group, result, has_failed=has_failed))


RAISES = (NotFound, CredentialsMissing, CredentialsRefused, ToolgroupUnavailable)
PATH = "/v1/tool-runtime/invoke"
ROUTE = Route("POST", PATH, invoke_tool, ToolRun, InvokeTool, raises=RAISES, stores=False, is_cancellable=True)
handler = LambdaHandler(__name__, ROUTE, loads="toolgroups")
