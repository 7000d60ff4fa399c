"""GET /letta/v1/agents/{agent_id}/archival: the passages of an agent's archival memory, oldest first."""

from turnstone.dialects.letta.ids import bare
from turnstone.dialects.letta.passages import PASSAGES_QUERY, LettaPassages, passages_of, passages_query
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_passages(request: Request) -> Reply:
    query, tenant = passages_query(request.query), request.caller.tenant
    agent = request.use_cases.letta_agents.read(request.caller, bare("agent", request.path_params["agent_id"]))
    return reply(passages_of(request.use_cases.archives.list(tenant, agent.agent_id, query), agent, tenant))


PATH = "/letta/v1/agents/{agent_id}/archival"
ROUTE = Route("GET", PATH, list_passages, LettaPassages, query=PASSAGES_QUERY, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_agents")
