"""DELETE /v1/toolgroups/{toolgroup_id}: forget a registered toolgroup."""

from turnstone.dialects.llama_stack.nothing import Nothing
from turnstone.domain.errors import InvalidRequest
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.routes import Reply, Request, Route, reply


def unregister_toolgroup(request: Request) -> Reply:
    request.application.toolgroups.unregister(request.caller, request.path_params["toolgroup_id"])
    return reply(Nothing())


ROUTE = Route("DELETE", "/v1/toolgroups/{toolgroup_id}", unregister_toolgroup, Nothing, raises=(InvalidRequest,))
handler = LambdaHandler(__name__, ROUTE, loads="toolgroups")
