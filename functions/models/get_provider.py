"""GET /v1/providers/{provider_id}: one provider, and how it is."""

from turnstone.domain.registry.providers import Provider
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_provider(request: Request) -> Reply:
    return reply(request.use_cases.providers.get(request.path_params["provider_id"]))


ROUTE = Route("GET", "/v1/providers/{provider_id}", get_provider, Provider)
handler = LambdaHandler(__name__, ROUTE, loads="providers")
