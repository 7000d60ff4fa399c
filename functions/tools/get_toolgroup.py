"""GET /v1/toolgroups/{toolgroup_id}: a toolgroup that comes with the server, or is registered."""

from turnstone.domain.registry.registry import Toolgroup
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_toolgroup(request: Request) -> Reply:
    return reply(request.use_cases.toolgroups.get(request.caller, request.path_params["toolgroup_id"]))


ROUTE = Route("GET", "/v1/toolgroups/{toolgroup_id}", get_toolgroup, Toolgroup)
handler = LambdaHandler(__name__, ROUTE, loads="toolgroups")
