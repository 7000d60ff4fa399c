"""GET /letta/v1/agents/{agent_id}/export: an agent with its blocks, tools and messages, as a file."""

from turnstone.dialects.letta.files.agent_files import ExportedAgent, exported, newest_within
from turnstone.dialects.letta.files.queries import EXPORT_QUERY, keeps_messages
from turnstone.dialects.letta.ids import bare
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def export_letta_agent(request: Request) -> Reply:
    is_whole = keeps_messages(request.query)
    agent_id = bare("agent", request.path_params["agent_id"])
    agent, turns = request.use_cases.letta_messages.read(request.caller, agent_id, None)
    return reply(exported(agent, newest_within(turns) if is_whole else (), request.caller.tenant))


PATH = "/letta/v1/agents/{agent_id}/export"
ROUTE = Route("GET", PATH, export_letta_agent, ExportedAgent, query=EXPORT_QUERY, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_messages")
