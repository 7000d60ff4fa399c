"""DELETE /v1/shields/{identifier}: forget a registered shield."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, null
from turnstone.http.request import Request
from turnstone.http.route import Null, Route


def unregister_shield(request: Request) -> Reply:
    request.use_cases.shields.unregister(request.caller, request.path_params["identifier"])
    return null()


ROUTE = Route("DELETE", "/v1/shields/{identifier}", unregister_shield, Null, takes_slashes=True)
handler = LambdaHandler(__name__, ROUTE, loads="shields")
