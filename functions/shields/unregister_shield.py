"""DELETE /v1/shields/{identifier}: forget a registered shield."""

from turnstone.dialects.llama_stack.nothing import Nothing
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.routes import Reply, Request, Route, reply


def unregister_shield(request: Request) -> Reply:
    request.application.shields.unregister(request.caller, request.path_params["identifier"])
    return reply(Nothing())


ROUTE = Route("DELETE", "/v1/shields/{identifier}", unregister_shield, Nothing, takes_slashes=True)
handler = LambdaHandler(__name__, ROUTE, loads="shields")
