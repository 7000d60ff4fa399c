"""GET /v1/toolgroups: the toolgroups that come with the server, and those registered beside them."""

from turnstone.dialects.llama_stack.tool_replies import ToolgroupList
from turnstone.domain.errors import StoreUnavailable
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_toolgroups(request: Request) -> Reply:
    return reply(ToolgroupList(data=request.use_cases.toolgroups.list(request.caller)))


ROUTE = Route("GET", "/v1/toolgroups", list_toolgroups, ToolgroupList, raises=(StoreUnavailable,))
handler = LambdaHandler(__name__, ROUTE, loads="toolgroups")
