"""GET /v1/providers: the providers of models, tools and shields on this server."""

from turnstone.dialects.llama_stack.models import ProviderList
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.routes import Reply, Request, Route, reply


def list_providers(request: Request) -> Reply:
    return reply(ProviderList(data=request.use_cases.providers.list()))


ROUTE = Route("GET", "/v1/providers", list_providers, ProviderList)
handler = LambdaHandler(__name__, ROUTE, loads="providers")
