"""GET /letta/v1/agents/{agent_id}: an agent."""

from turnstone.dialects.letta.agents import AgentState, state_of
from turnstone.dialects.letta.ids import bare
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_letta_agent(request: Request) -> Reply:
    agent_id = bare("agent", request.path_params["agent_id"])
    return reply(state_of(request.use_cases.letta_agents.read(request.caller, agent_id), request.caller.tenant))


PATH = "/letta/v1/agents/{agent_id}"
ROUTE = Route("GET", PATH, get_letta_agent, AgentState, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_agents")
