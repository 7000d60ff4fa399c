"""GET /v1/toolgroups: the toolgroups that come with the server, and those registered beside them."""

from turnstone.dialects.llama_stack.tool_replies import ToolgroupList
from turnstone.domain.errors import StoreUnavailable
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.routes import Reply, Request, Route, reply


def list_toolgroups(request: Request) -> Reply:
    return reply(ToolgroupList(data=request.use_cases.toolgroups.list(request.caller)))


ROUTE = Route("GET", "/v1/toolgroups", list_toolgroups, ToolgroupList, raises=(StoreUnavailable,))
handler = LambdaHandler(__name__, ROUTE, loads="toolgroups")
