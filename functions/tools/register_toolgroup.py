"""POST /v1/toolgroups: register a toolgroup, such as that of an MCP server."""

from turnstone.dialects.llama_stack.tool_requests import RegisterToolgroup
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.routes import Null, Reply, Request, Route, null, parse


def register_toolgroup(request: Request) -> Reply:
    toolgroup = parse(request, RegisterToolgroup).to_toolgroup()
    request.application.toolgroups.register(request.caller, toolgroup, request.attempt)
    return null()


ROUTE = Route("POST", "/v1/toolgroups", register_toolgroup, Null, RegisterToolgroup)
handler = LambdaHandler(__name__, ROUTE, loads="toolgroups")
