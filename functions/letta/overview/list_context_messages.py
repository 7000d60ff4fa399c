"""GET /letta/v1/agents/{agent_id}/memory/messages: the messages that the next inference of an agent sees."""

from turnstone.dialects.letta.ids import bare
from turnstone.dialects.letta.overview.context import context_messages
from turnstone.dialects.letta.overview.message_objects import MessageObjects
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_context_messages(request: Request) -> Reply:
    agent_id = bare("agent", request.path_params["agent_id"])
    agent, context, turns = request.use_cases.letta_contexts.read(request.caller, agent_id)
    return reply(context_messages(agent, context, turns, request.caller.tenant))


PATH = "/letta/v1/agents/{agent_id}/memory/messages"
ROUTE = Route("GET", PATH, list_context_messages, MessageObjects, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_contexts")
