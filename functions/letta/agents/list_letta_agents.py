"""GET /letta/v1/agents: the agents that the caller may see, in the order of their creation."""

from turnstone.dialects.letta.agents import AgentStates, state_of
from turnstone.dialects.letta.lists import AGENTS_QUERY, agents_query
from turnstone.domain.errors import NotFound
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_letta_agents(request: Request) -> Reply:
    found = request.use_cases.letta_agents.list(request.caller, agents_query(request.query))
    return reply(AgentStates(tuple(state_of(agent, request.caller.tenant) for agent in found)))


PATH = "/letta/v1/agents"
ROUTE = Route("GET", PATH, list_letta_agents, AgentStates, query=AGENTS_QUERY, raises=(NotFound,), dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_agents")
