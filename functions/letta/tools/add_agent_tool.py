"""PATCH /letta/v1/agents/{agent_id}/add-tool/{tool_id}: add a tool to an agent, if it lacks it."""

from turnstone.dialects.letta.agents import AgentState, state_of
from turnstone.dialects.letta.ids import bare
from turnstone.dialects.letta.tools import tool_of_id, with_tool_of_id
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def add_agent_tool(request: Request) -> Reply:
    tool_id, agent_id = request.path_params["tool_id"], bare("agent", request.path_params["agent_id"])
    request.use_cases.letta_tools.find(request.caller, tool_of_id(tool_id))
    agents = request.use_cases.letta_agents
    changes = lambda config: {"toolgroups": with_tool_of_id(config, tool_id)}  # noqa: E731 - of the stored one
    agent = agents.change_config(request.caller, agent_id, changes)
    return reply(state_of(agent, request.caller.tenant))


PATH = "/letta/v1/agents/{agent_id}/add-tool/{tool_id}"
ROUTE = Route("PATCH", PATH, add_agent_tool, AgentState, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads=("letta_agents", "letta_tools"))
