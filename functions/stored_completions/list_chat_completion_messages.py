"""GET /v1/openai/v1/chat/completions/{completion_id}/messages: the messages of a stored chat completion's question."""

from turnstone.dialects.openai.chat.stored_completions import (
    MESSAGES_QUERY,
    StoredMessages,
    completion_id_in,
    messages_in,
)
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, restored, wire_json
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_chat_completion_messages(request: Request) -> FileReply:
    completion_id = completion_id_in(request.path_params["completion_id"])
    stored = request.use_cases.stored_completions
    wire, restore = stored.without_long_texts(request.caller, completion_id)
    return restored(FileReply(wire_json(messages_in(wire, request.query))), restore)


PATH = "/v1/openai/v1/chat/completions/{completion_id}/messages"
ROUTE = Route(
    "GET", PATH, list_chat_completion_messages, StoredMessages, query=MESSAGES_QUERY, dialect=OPENAI, stores=False
)
handler = LambdaHandler(__name__, ROUTE, loads="stored_completions")
