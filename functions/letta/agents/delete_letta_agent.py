"""DELETE /letta/v1/agents/{agent_id}: delete an agent with its messages."""

from turnstone.dialects.letta.agents import AgentDeleted
from turnstone.dialects.letta.ids import bare, shown
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def delete_letta_agent(request: Request) -> Reply:
    agent_id = bare("agent", request.path_params["agent_id"])
    request.use_cases.deleting.delete_agent(request.caller, agent_id)
    return reply(AgentDeleted(message=f"Agent {shown('agent', agent_id)} was deleted"))


PATH = "/letta/v1/agents/{agent_id}"
ROUTE = Route("DELETE", PATH, delete_letta_agent, AgentDeleted, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="deleting")
