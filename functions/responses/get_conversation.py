"""GET /v1/openai/v1/conversations/{conversation_id}: a conversation; any session is one."""

from turnstone.dialects.openai.responses.conversations import ConversationObject
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import RESPONSES
from turnstone.http.replies import FileReply, json_reply, wire_json
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_conversation(request: Request) -> FileReply:
    stored = request.use_cases.conversations.read(request.caller, request.path_params["conversation_id"])
    return json_reply(wire_json(ConversationObject.of(stored)))


PATH = "/v1/openai/v1/conversations/{conversation_id}"
ROUTE = Route("GET", PATH, get_conversation, ConversationObject, dialect=RESPONSES, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="conversations")
