"""PATCH /letta/v1/agents/{agent_id}: change an agent; its next turn has the new configuration."""

from turnstone.dialects.letta.agents import AgentState, state_of
from turnstone.dialects.letta.ids import bare
from turnstone.dialects.letta.requests import UpdateLettaAgent
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def update_letta_agent(request: Request) -> Reply:
    body = parse(request, UpdateLettaAgent)
    agent_id = bare("agent", request.path_params["agent_id"])
    fields = body.to_fields()
    agents = request.use_cases.letta_agents
    agent = agents.change(request.caller, agent_id, body.to_config(), lambda _: fields, body.to_block_ids())
    return reply(state_of(agent, request.caller.tenant))


PATH = "/letta/v1/agents/{agent_id}"
ROUTE = Route("PATCH", PATH, update_letta_agent, AgentState, UpdateLettaAgent, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_agents")
