"""GET /letta/v1/tools/name/{name}: the id of the tool of that name."""

from turnstone.dialects.letta.tools import LettaToolId, base_tool_named, id_of_tool
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_tool_by_name(request: Request) -> Reply:
    name = base_tool_named(request.path_params["name"])
    return reply(LettaToolId(id_of_tool(name)))


PATH = "/letta/v1/tools/name/{name}"
ROUTE = Route("GET", PATH, get_tool_by_name, LettaToolId, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE)
