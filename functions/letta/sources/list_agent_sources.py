"""GET /letta/v1/agents/{agent_id}/sources: the sources of an agent, in the order of their attachment."""

from turnstone.dialects.letta.ids import bare
from turnstone.dialects.letta.sources import LettaSources, sources_of
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_agent_sources(request: Request) -> Reply:
    agent = request.use_cases.letta_agents.read(request.caller, bare("agent", request.path_params["agent_id"]))
    return reply(sources_of(agent.sources, request.caller.tenant))


PATH = "/letta/v1/agents/{agent_id}/sources"
ROUTE = Route("GET", PATH, list_agent_sources, LettaSources, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_agents")
