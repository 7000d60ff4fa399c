"""POST /v1/agents: create an agent."""

from turnstone.dialects.llama_stack.replies import AgentCreated
from turnstone.dialects.llama_stack.requests import CreateAgent
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.routes import Reply, Request, Route, parse, reply


def create_agent(request: Request) -> Reply:
    body = parse(request, CreateAgent)
    agents = request.use_cases.agents
    return reply(AgentCreated(agent_id=agents.create(request.caller, body.agent_config, request.attempt)))


ROUTE = Route("POST", "/v1/agents", create_agent, AgentCreated, CreateAgent)
handler = LambdaHandler(__name__, ROUTE, loads="agents")
