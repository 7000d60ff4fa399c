"""GET /letta/v1/agents/{agent_id}/messages: the newest messages of an agent, oldest first."""

from turnstone.dialects.letta.ids import bare
from turnstone.dialects.letta.message_requests import QUERY, messages_query
from turnstone.dialects.letta.overview.message_objects import MessageList, messages_of
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_letta_messages(request: Request) -> Reply:
    query = messages_query(request.query)
    agent_id = bare("agent", request.path_params["agent_id"])
    agent, turns = request.use_cases.letta_messages.read(request.caller, agent_id, query.last_turn)
    return reply(messages_of(query, agent, turns, request.caller.tenant))


PATH = "/letta/v1/agents/{agent_id}/messages"
ROUTE = Route("GET", PATH, list_letta_messages, MessageList, query=QUERY, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_messages")
