"""GET /v1/agents/{agent_id}: an agent with its configuration."""

from turnstone.domain.agents import Agent
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.routes import Reply, Request, Route, reply


def get_agent(request: Request) -> Reply:
    return reply(request.application.agents.get(request.caller, request.path_params["agent_id"]))


ROUTE = Route("GET", "/v1/agents/{agent_id}", get_agent, Agent)
handler = LambdaHandler(__name__, ROUTE, loads="agents")
