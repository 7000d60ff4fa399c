"""DELETE /v1/openai/v1/chat/completions/{completion_id}: delete a stored chat completion."""

from turnstone.dialects.openai.chat.stored_completions import ChatCompletionDeleted, completion_id_in
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, wire_json
from turnstone.http.request import Request
from turnstone.http.route import Route


def delete_chat_completion(request: Request) -> FileReply:
    completion_id = completion_id_in(request.path_params["completion_id"])
    request.use_cases.stored_completions.delete(request.caller, completion_id)
    return FileReply(wire_json(ChatCompletionDeleted(id=completion_id)))


PATH = "/v1/openai/v1/chat/completions/{completion_id}"
ROUTE = Route("DELETE", PATH, delete_chat_completion, ChatCompletionDeleted, dialect=OPENAI, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="stored_completions")
