"""GET /letta/v1/agents/{agent_id}/sources: the sources of an agent, in the order of their attachment."""

from turnstone.dialects.letta.ids import bare
from turnstone.dialects.letta.lists import PART_QUERY, part_of
from turnstone.dialects.letta.sources import LettaSources, source_of
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_agent_sources(request: Request) -> Reply:
    agent = request.use_cases.letta_agents.read(request.caller, bare("agent", request.path_params["agent_id"]))
    sources = [source_of(each, request.caller.tenant) for each in agent.sources]
    return reply(LettaSources(part_of("source", sources, request.query)))


PATH = "/letta/v1/agents/{agent_id}/sources"
ROUTE = Route("GET", PATH, list_agent_sources, LettaSources, query=PART_QUERY, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_agents")
