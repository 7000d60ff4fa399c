"""POST /letta/v1/agents: create an agent with its memory blocks and first messages."""

from turnstone.dialects.letta.agents import AgentState, state_of
from turnstone.dialects.letta.ids import random_name
from turnstone.dialects.letta.requests import CreateLettaAgent
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def create_letta_agent(request: Request) -> Reply:
    importing = request.use_cases.letta_importing
    imported = parse(request, CreateLettaAgent).to_imported(random_name(), importing.now)
    agent = importing.create(request.caller, imported, request.attempt)
    return reply(state_of(agent, request.caller.tenant))


PATH = "/letta/v1/agents"
ROUTE = Route("POST", PATH, create_letta_agent, AgentState, CreateLettaAgent, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_importing")
