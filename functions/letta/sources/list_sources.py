"""GET /letta/v1/sources: the sources that the caller may see, in the order of their creation."""

from turnstone.dialects.letta.sources import SOURCES_QUERY, LettaSources, sources_of, sources_query
from turnstone.domain.errors import NotFound
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_sources(request: Request) -> Reply:
    found = request.use_cases.letta_sources.list(request.caller, sources_query(request.query))
    return reply(sources_of(found, request.caller.tenant))


PATH = "/letta/v1/sources"
ROUTE = Route("GET", PATH, list_sources, LettaSources, query=SOURCES_QUERY, raises=(NotFound,), dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_sources")
