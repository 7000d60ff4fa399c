"""GET /letta/v1/tools/name/{name}: the id of the tool of that name."""

from turnstone.dialects.letta.tools import LettaToolId, id_shown
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_tool_by_name(request: Request) -> Reply:
    found = request.use_cases.letta_tools.id_named(request.caller, request.path_params["name"])
    return reply(LettaToolId(id_shown(found)))


PATH = "/letta/v1/tools/name/{name}"
ROUTE = Route("GET", PATH, get_tool_by_name, LettaToolId, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_tools")
