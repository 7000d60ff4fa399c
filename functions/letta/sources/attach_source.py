"""POST /letta/v1/sources/{source_id}/attach: attach a source to an agent, which then finds its passages."""

from turnstone.dialects.letta.lists import OF_AGENT, agent_in
from turnstone.dialects.letta.sources import LettaSource, source_of
from turnstone.domain.letta.sources import source_id_in
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def attach_source(request: Request) -> Reply:
    agent_id, source_id = agent_in(request.query), source_id_in(request.path_params["source_id"])
    source = request.use_cases.letta_agents.attach_source(request.caller, agent_id, source_id)
    return reply(source_of(source, request.caller.tenant))


PATH = "/letta/v1/sources/{source_id}/attach"
ROUTE = Route("POST", PATH, attach_source, LettaSource, query=OF_AGENT, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads=("letta_agents", "letta_sources"))
