"""GET /v1/agents: the agents that the caller may see, oldest first."""

from turnstone.dialects.llama_stack.lists import HEAD, NAME, QUERY, Page, list_query, page_tail
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import PiecesReply, joined
from turnstone.http.request import Request
from turnstone.http.route import Route

PATH = "/v1/agents"


def list_agents(request: Request) -> PiecesReply:
    listing, agents = request.use_cases.agents.list(request.caller, list_query(request.query, by_name=True))
    return PiecesReply(joined(HEAD, agents, lambda: page_tail(PATH, listing.cursor, has_more=listing.has_more)))


ROUTE = Route("GET", PATH, list_agents, Page, query={**QUERY, "name": NAME})
handler = LambdaHandler(__name__, ROUTE, loads="agents")
