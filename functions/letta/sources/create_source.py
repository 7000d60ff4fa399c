"""POST /letta/v1/sources: create a source, for files whose passages agents search."""

from turnstone.dialects.letta.sources import CreateSource, LettaSource, source_of
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def create_source(request: Request) -> Reply:
    new = parse(request, CreateSource).to_new()
    made = request.use_cases.letta_sources.create(request.caller, new, request.attempt)
    return reply(source_of(made, request.caller.tenant))


PATH = "/letta/v1/sources"
ROUTE = Route("POST", PATH, create_source, LettaSource, CreateSource, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_sources")
