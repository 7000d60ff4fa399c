"""GET /letta/v1/agents/{agent_id}/tools: the tools of an agent."""

from turnstone.dialects.letta.ids import bare
from turnstone.dialects.letta.lists import PART_QUERY, part_of
from turnstone.dialects.letta.tools import LettaTools, tools_shown
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_agent_tools(request: Request) -> Reply:
    agent = request.use_cases.letta_agents.read(request.caller, bare("agent", request.path_params["agent_id"]))
    tools = tools_shown(agent, request.caller.tenant)
    return reply(LettaTools(part_of("tool", tools, request.query)))


PATH = "/letta/v1/agents/{agent_id}/tools"
ROUTE = Route("GET", PATH, list_agent_tools, LettaTools, query=PART_QUERY, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_agents")
