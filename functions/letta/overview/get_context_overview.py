"""GET /letta/v1/agents/{agent_id}/context: what the next inference of an agent sees, with its tokens."""

from turnstone.dialects.letta.ids import bare
from turnstone.dialects.letta.overview.context import ContextWindowOverview, overview_of
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_context_overview(request: Request) -> Reply:
    agent_id = bare("agent", request.path_params["agent_id"])
    agent, context, turns = request.use_cases.letta_contexts.read(request.caller, agent_id)
    passages = request.use_cases.archives.count(request.caller.tenant, agent_id)
    return reply(overview_of(agent, context, turns, passages, request.caller.tenant))


PATH = "/letta/v1/agents/{agent_id}/context"
ROUTE = Route("GET", PATH, get_context_overview, ContextWindowOverview, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads=("letta_contexts", "archives"))
