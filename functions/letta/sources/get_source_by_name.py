"""GET /letta/v1/sources/name/{source_name}: the id of the oldest source of that name."""

from turnstone.dialects.letta.sources import LettaSourceId
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_source_by_name(request: Request) -> Reply:
    found = request.use_cases.letta_sources.named(request.caller, request.path_params["source_name"])
    return reply(LettaSourceId(found.bank_id))


PATH = "/letta/v1/sources/name/{source_name}"
ROUTE = Route("GET", PATH, get_source_by_name, LettaSourceId, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_sources")
