"""GET /letta/v1/agents/{agent_id}/memory/recall: the number of messages of an agent."""

from turnstone.dialects.letta.ids import bare
from turnstone.dialects.letta.overview.context import RecallSummary, recall_of
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_recall_summary(request: Request) -> Reply:
    agent_id = bare("agent", request.path_params["agent_id"])
    _, turns = request.use_cases.letta_messages.read(request.caller, agent_id, None)
    return reply(recall_of(turns))


PATH = "/letta/v1/agents/{agent_id}/memory/recall"
ROUTE = Route("GET", PATH, get_recall_summary, RecallSummary, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_messages")
