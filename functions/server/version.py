"""GET /v1/version: which Turnstone this is."""

from turnstone import VERSION
from turnstone.dialects.llama_stack.replies import Version
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def version(_: Request) -> Reply:
    return reply(Version(version=VERSION))


ROUTE = Route("GET", "/v1/version", version, Version, is_brief=True)
handler = LambdaHandler(__name__, ROUTE)
