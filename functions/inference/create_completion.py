"""POST /v1/openai/v1/completions: have a model continue texts, as OpenAI's clients do; nothing is stored."""

from turnstone.dialects.openai.chat.completions import Completion, CompletionEncoder, CreateCompletion
from turnstone.domain.errors import ModelBusy, ModelError, ModelTimedOut
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.clients import is_llama_stack_client
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import ModelReply, ModelStreamReply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def create_completion(request: Request) -> ModelReply | ModelStreamReply:
    body = parse(request, CreateCompletion)
    answering = request.use_cases.inferring.complete(request.caller, body.to_texts(), request.provider_data)
    ends_with_done = not is_llama_stack_client(request.headers)
    encoder = CompletionEncoder(body, answering.answer_id, answering.requested_at, ends_with_done=ends_with_done)
    return ModelStreamReply(answering, encoder) if body.stream else ModelReply(answering, encoder)


ROUTE = Route(
    "POST",
    "/v1/openai/v1/completions",
    create_completion,
    Completion,
    CreateCompletion,
    raises=(ModelBusy, ModelError, ModelTimedOut),
    dialect=OPENAI,
    chunk=Completion,
    stores=False,
)
handler = LambdaHandler(__name__, ROUTE, loads="inferring")
