"""POST /agents/create: create an agent, as clients of September 2024 do."""

from turnstone.dialects.llama_stack.replies import AgentCreated
from turnstone.dialects.llama_stack_2024.agent_requests import CreateAgent2024
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LLAMA_STACK_2024
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def create_agent(request: Request) -> Reply:
    body = parse(request, CreateAgent2024)
    agents = request.use_cases.agents
    agent_id = agents.create(request.caller, body.agent_config.to_config(), request.attempt)
    return reply(AgentCreated(agent_id=agent_id))


ROUTE = Route("POST", "/agents/create", create_agent, AgentCreated, CreateAgent2024, dialect=LLAMA_STACK_2024)
handler = LambdaHandler(__name__, ROUTE, loads="agents")
