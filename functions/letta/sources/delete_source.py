"""DELETE /letta/v1/sources/{source_id}: delete a source with its files, whose passages leave its agents."""

from turnstone.domain.letta.sources import source_id_in
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, null
from turnstone.http.request import Request
from turnstone.http.route import Null, Route


def delete_source(request: Request) -> Reply:
    source_id = source_id_in(request.path_params["source_id"])
    request.use_cases.letta_sources.delete(request.caller, source_id)
    return null()


PATH = "/letta/v1/sources/{source_id}"
ROUTE = Route("DELETE", PATH, delete_source, Null, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_sources")
