"""GET /v1/agents/{agent_id}: an agent with its configuration."""

from turnstone.domain.agents.agents import Agent
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_agent(request: Request) -> Reply:
    return Reply(request.use_cases.agents.wire(request.caller, request.path_params["agent_id"]))


ROUTE = Route("GET", "/v1/agents/{agent_id}", get_agent, Agent, is_brief=True)
handler = LambdaHandler(__name__, ROUTE, loads="agents")
