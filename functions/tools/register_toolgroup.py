"""POST /v1/toolgroups: register a toolgroup, such as that of an MCP server."""

from turnstone.dialects.llama_stack.tool_requests import RegisterToolgroup
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, null
from turnstone.http.request import Request, parse
from turnstone.http.route import Null, Route


def register_toolgroup(request: Request) -> Reply:
    body = parse(request, RegisterToolgroup)
    toolgroups = request.use_cases.toolgroups
    toolgroups.register(request.caller, body.to_toolgroup(), request.attempt, may_be_off=body.is_of_a_set_up_script)
    return null()


ROUTE = Route("POST", "/v1/toolgroups", register_toolgroup, Null, RegisterToolgroup)
handler = LambdaHandler(__name__, ROUTE, loads="toolgroups")
