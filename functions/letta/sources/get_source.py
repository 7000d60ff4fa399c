"""GET /letta/v1/sources/{source_id}: a source."""

from turnstone.dialects.letta.sources import LettaSource, source_of
from turnstone.domain.letta.sources import source_id_in
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_source(request: Request) -> Reply:
    source_id = source_id_in(request.path_params["source_id"])
    return reply(source_of(request.use_cases.letta_sources.get(request.caller, source_id), request.caller.tenant))


PATH = "/letta/v1/sources/{source_id}"
ROUTE = Route("GET", PATH, get_source, LettaSource, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_sources")
