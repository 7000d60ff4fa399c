"""PATCH /letta/v1/sources/{source_id}: change a source."""

from turnstone.dialects.letta.sources import LettaSource, UpdateSource, source_of
from turnstone.domain.letta.sources import source_id_in
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def update_source(request: Request) -> Reply:
    changes = parse(request, UpdateSource).to_changes()
    source_id = source_id_in(request.path_params["source_id"])
    changed = request.use_cases.letta_sources.change(request.caller, source_id, changes)
    return reply(source_of(changed, request.caller.tenant))


PATH = "/letta/v1/sources/{source_id}"
ROUTE = Route("PATCH", PATH, update_source, LettaSource, UpdateSource, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_sources")
