"""GET /v1/toolgroups/{toolgroup_id}: a toolgroup that comes with the server, or is registered."""

from turnstone.domain.registry.registry import Toolgroup
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.routes import Reply, Request, Route, reply


def get_toolgroup(request: Request) -> Reply:
    return reply(request.use_cases.toolgroups.get(request.caller, request.path_params["toolgroup_id"]))


ROUTE = Route("GET", "/v1/toolgroups/{toolgroup_id}", get_toolgroup, Toolgroup)
handler = LambdaHandler(__name__, ROUTE, loads="toolgroups")
