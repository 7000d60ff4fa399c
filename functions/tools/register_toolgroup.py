"""POST /v1/toolgroups: register a toolgroup, such as that of an MCP server."""

from turnstone.dialects.llama_stack.nothing import Nothing
from turnstone.dialects.llama_stack.registry_requests import RegisterToolgroup
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.routes import Reply, Request, Route, parse, reply


def register_toolgroup(request: Request) -> Reply:
    toolgroup = parse(request, RegisterToolgroup).to_toolgroup()
    request.application.toolgroups.register(request.caller, toolgroup, request.attempt)
    return reply(Nothing())


ROUTE = Route("POST", "/v1/toolgroups", register_toolgroup, Nothing, RegisterToolgroup)
handler = LambdaHandler(__name__, ROUTE, loads="toolgroups")
