"""POST /v1/openai/v1/conversations: create a conversation, with its first items."""

from turnstone.dialects.openai.responses.conversations import ConversationObject, CreateConversation
from turnstone.domain.errors import NotFound
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import RESPONSES
from turnstone.http.replies import FileReply, json_reply, wire_json
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def create_conversation(request: Request) -> FileReply:
    new = parse(request, CreateConversation).to_new()
    stored = request.use_cases.conversations.create(request.caller, new, request.attempt)
    return json_reply(wire_json(ConversationObject.of(stored)))


PATH = "/v1/openai/v1/conversations"
ROUTE = Route(
    "POST",
    PATH,
    create_conversation,
    ConversationObject,
    CreateConversation,
    raises=(NotFound,),
    dialect=RESPONSES,
)
handler = LambdaHandler(__name__, ROUTE, loads="conversations")
