"""POST /v1/openai/v1/chat/completions/{completion_id}: give a stored chat completion other metadata."""

from turnstone.dialects.openai.chat.stored_completions import (
    StoredChatCompletion,
    UpdateChatCompletion,
    completion_id_in,
    with_metadata,
)
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, json_reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def update_chat_completion(request: Request) -> FileReply:
    completion_id = completion_id_in(request.path_params["completion_id"])
    metadata = parse(request, UpdateChatCompletion).metadata or {}
    stored = request.use_cases.stored_completions
    return json_reply(stored.update(request.caller, completion_id, metadata, with_metadata))


ROUTE = Route(
    "POST",
    "/v1/openai/v1/chat/completions/{completion_id}",
    update_chat_completion,
    StoredChatCompletion,
    UpdateChatCompletion,
    dialect=OPENAI,
    stores=False,
)
handler = LambdaHandler(__name__, ROUTE, loads="stored_completions")
