"""POST /letta/v1/agents/{agent_id}/archival: keep a text in an agent's archival memory."""

from turnstone.dialects.letta.ids import bare
from turnstone.dialects.letta.passages import CreatePassage, LettaPassages, passages_of
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def create_passages(request: Request) -> Reply:
    body, tenant = parse(request, CreatePassage), request.caller.tenant
    agents, agent_id = request.use_cases.letta_agents, bare("agent", request.path_params["agent_id"])
    agents.check_change(request.caller, agent_id)
    key = request.attempt.key
    made = request.use_cases.archives.insert(tenant, agent_id, body.text, key, request.provider_data)
    return reply(passages_of(made, agents.read(request.caller, agent_id), tenant))


PATH = "/letta/v1/agents/{agent_id}/archival"
ROUTE = Route("POST", PATH, create_passages, LettaPassages, CreatePassage, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_agents")
