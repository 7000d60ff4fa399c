"""GET /v1/providers/{provider_id}: one provider, and how it is."""

from turnstone.domain.registry.providers import Provider
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.routes import Reply, Request, Route, reply


def get_provider(request: Request) -> Reply:
    return reply(request.use_cases.providers.get(request.path_params["provider_id"]))


ROUTE = Route("GET", "/v1/providers/{provider_id}", get_provider, Provider)
handler = LambdaHandler(__name__, ROUTE, loads="providers")
