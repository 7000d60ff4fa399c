"""GET /v1/openai/v1/chat/completions/{completion_id}: a stored chat completion with its question."""

from turnstone.dialects.openai.chat.stored_completions import StoredChatCompletion, completion_id_in
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, json_reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_chat_completion(request: Request) -> FileReply:
    completion_id = completion_id_in(request.path_params["completion_id"])
    return json_reply(request.use_cases.stored_completions.wire(request.caller, completion_id))


PATH = "/v1/openai/v1/chat/completions/{completion_id}"
ROUTE = Route("GET", PATH, get_chat_completion, StoredChatCompletion, dialect=OPENAI, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="stored_completions")
