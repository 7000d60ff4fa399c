"""DELETE /v1/openai/v1/conversations/{conversation_id}: delete a conversation with its items and responses."""

from turnstone.dialects.openai.responses.conversations import ConversationDeleted
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import RESPONSES
from turnstone.http.replies import FileReply, json_reply, wire_json
from turnstone.http.request import Request
from turnstone.http.route import Route


def delete_conversation(request: Request) -> FileReply:
    conversation_id = request.path_params["conversation_id"]
    request.use_cases.conversations.delete(request.caller, conversation_id)
    return json_reply(wire_json(ConversationDeleted(id=conversation_id)))


PATH = "/v1/openai/v1/conversations/{conversation_id}"
ROUTE = Route("DELETE", PATH, delete_conversation, ConversationDeleted, dialect=RESPONSES, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="conversations")
