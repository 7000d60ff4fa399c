"""DELETE /letta/v1/tools/{tool_id}: delete a tool of Python, which disappears from its agents."""

from turnstone.dialects.letta.tools import custom_id
from turnstone.domain.errors import InvalidRequest
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, null
from turnstone.http.request import Request
from turnstone.http.route import Null, Route


def delete_letta_tool(request: Request) -> Reply:
    request.use_cases.letta_tools.delete(request.caller, custom_id(request.path_params["tool_id"]))
    return null()


PATH = "/letta/v1/tools/{tool_id}"
ROUTE = Route("DELETE", PATH, delete_letta_tool, Null, raises=(InvalidRequest,), dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_tools")
