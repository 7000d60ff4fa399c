"""GET /v1/shields/{identifier}: a registered shield."""

from turnstone.domain.registry.registry import Shield
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_shield(request: Request) -> Reply:
    return reply(request.use_cases.shields.get(request.caller, request.path_params["identifier"]))


ROUTE = Route("GET", "/v1/shields/{identifier}", get_shield, Shield, takes_slashes=True)
handler = LambdaHandler(__name__, ROUTE, loads="shields")
