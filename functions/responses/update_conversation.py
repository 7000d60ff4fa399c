"""POST /v1/openai/v1/conversations/{conversation_id}: give a conversation other metadata."""

from turnstone.dialects.openai.responses.conversations import ConversationObject, UpdateConversation
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import RESPONSES
from turnstone.http.replies import FileReply, json_reply, wire_json
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def update_conversation(request: Request) -> FileReply:
    metadata = parse(request, UpdateConversation).metadata or {}
    conversation_id = request.path_params["conversation_id"]
    stored = request.use_cases.conversations.update(request.caller, conversation_id, metadata)
    return json_reply(wire_json(ConversationObject.of(stored)))


PATH = "/v1/openai/v1/conversations/{conversation_id}"
ROUTE = Route(
    "POST", PATH, update_conversation, ConversationObject, UpdateConversation, dialect=RESPONSES, stores=False
)
handler = LambdaHandler(__name__, ROUTE, loads="conversations")
