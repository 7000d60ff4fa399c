"""PATCH /letta/v1/agents/{agent_id}/reset-messages: remove the messages of an agent, which keeps its memory."""

from turnstone.dialects.letta.agents import AgentState, state_of
from turnstone.dialects.letta.ids import bare
from turnstone.dialects.letta.lists import RESET_QUERY, refuse_initial_messages
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def reset_letta_messages(request: Request) -> Reply:
    refuse_initial_messages(request.query)
    agent_id = bare("agent", request.path_params["agent_id"])
    agent = request.use_cases.letta_messages.reset(request.caller, agent_id)
    return reply(state_of(agent, request.caller.tenant))


PATH = "/letta/v1/agents/{agent_id}/reset-messages"
ROUTE = Route("PATCH", PATH, reset_letta_messages, AgentState, query=RESET_QUERY, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads=("letta_messages", "turns"))
