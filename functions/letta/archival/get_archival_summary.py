"""GET /letta/v1/agents/{agent_id}/memory/archival: the number of passages of an agent's archival memory."""

from turnstone.dialects.letta.ids import bare
from turnstone.dialects.letta.passages import ArchivalSummary
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_archival_summary(request: Request) -> Reply:
    agent = request.use_cases.letta_agents.read(request.caller, bare("agent", request.path_params["agent_id"]))
    return reply(ArchivalSummary(size=request.use_cases.archives.count(request.caller.tenant, agent.agent_id)))


PATH = "/letta/v1/agents/{agent_id}/memory/archival"
ROUTE = Route("GET", PATH, get_archival_summary, ArchivalSummary, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_agents")
