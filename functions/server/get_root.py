"""GET /: what answers here, and where its documentation is, for a person or a program."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_root(request: Request) -> Reply:
    from turnstone.http.server.front import front_reply

    return front_reply(request)


ROUTE = Route("GET", "/", get_root, None, is_brief=True, is_open=True)
handler = LambdaHandler(__name__, ROUTE)
