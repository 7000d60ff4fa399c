"""GET /letta/v1/sources/{source_id}/passages: the passages of a source, oldest first."""

from turnstone.dialects.letta.passages import PASSAGES_QUERY, LettaPassages, passages_of_source, passages_query
from turnstone.domain.letta.sources import source_id_in
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_source_passages(request: Request) -> Reply:
    query = passages_query(request.query)
    source_id = source_id_in(request.path_params["source_id"])
    found = request.use_cases.letta_sources.list_passages(request.caller, source_id, query)
    return reply(passages_of_source(found, request.caller.tenant))


PATH = "/letta/v1/sources/{source_id}/passages"
ROUTE = Route("GET", PATH, list_source_passages, LettaPassages, query=PASSAGES_QUERY, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_sources")
