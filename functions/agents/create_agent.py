"""POST /v1/agents: create an agent."""

from turnstone.dialects.llama_stack.replies import AgentCreated
from turnstone.dialects.llama_stack.requests import CreateAgent
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def create_agent(request: Request) -> Reply:
    body = parse(request, CreateAgent)
    agents = request.use_cases.agents
    return reply(AgentCreated(agent_id=agents.create(request.caller, body.agent_config, request.attempt)))


ROUTE = Route("POST", "/v1/agents", create_agent, AgentCreated, CreateAgent)
handler = LambdaHandler(__name__, ROUTE, loads="agents")
