"""GET /letta/v1/tags: the tags of the agents that the caller may see, in alphabetical order."""

from turnstone.dialects.letta.lists import TAGS_QUERY, LettaTags, tags_query
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_tags(request: Request) -> Reply:
    return reply(LettaTags(request.use_cases.letta_agents.tags(request.caller, tags_query(request.query))))


PATH = "/letta/v1/tags"
ROUTE = Route("GET", PATH, list_tags, LettaTags, query=TAGS_QUERY, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_agents")
