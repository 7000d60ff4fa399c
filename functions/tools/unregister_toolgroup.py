"""DELETE /v1/toolgroups/{toolgroup_id}: forget a registered toolgroup."""

from turnstone.domain.errors import InvalidRequest
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, null
from turnstone.http.request import Request
from turnstone.http.route import Null, Route


def unregister_toolgroup(request: Request) -> Reply:
    request.use_cases.toolgroups.unregister(request.caller, request.path_params["toolgroup_id"])
    return null()


ROUTE = Route("DELETE", "/v1/toolgroups/{toolgroup_id}", unregister_toolgroup, Null, raises=(InvalidRequest,))
handler = LambdaHandler(__name__, ROUTE, loads="toolgroups")
