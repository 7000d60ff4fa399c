"""GET /v1/providers: the providers of models, tools and shields on this server."""

from turnstone.dialects.llama_stack.models import ProviderList
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_providers(request: Request) -> Reply:
    return reply(ProviderList(data=request.use_cases.providers.list()))


ROUTE = Route("GET", "/v1/providers", list_providers, ProviderList)
handler = LambdaHandler(__name__, ROUTE, loads="providers")
