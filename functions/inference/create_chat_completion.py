"""POST /v1/openai/v1/chat/completions: call a model as OpenAI's clients do; the answer is stored if `store` is true."""

from datetime import datetime

from turnstone.dialects.openai.chat.chat_replies import ChatCompletion, ChatCompletionChunk, ChatCompletionEncoder
from turnstone.dialects.openai.chat.chat_requests import CreateChatCompletion
from turnstone.dialects.openai.chat.stored_completions import stored_wire
from turnstone.domain.errors import ModelBusy, ModelError, ModelTimedOut
from turnstone.domain.models.requests import Inferred
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.clients import is_llama_stack_client
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import ModelReply, ModelStreamReply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def create_chat_completion(request: Request) -> ModelReply | ModelStreamReply:
    body = parse(request, CreateChatCompletion)

    def keep(answer_id: str, requested_at: datetime, answer: Inferred) -> None:
        encoder = ChatCompletionEncoder(body.model, answer_id, requested_at)
        wire, metadata = stored_wire(encoder.whole(answer), body.messages, body.metadata), body.metadata or {}
        request.use_cases.stored_completions.keep(request.caller, encoder.completion_id, body.model, metadata, wire)

    kept = keep if body.store else None
    answering = request.use_cases.inferring.chat(request.caller, body.to_question(), request.provider_data, kept)
    options = {"includes_usage": body.includes_usage, "ends_with_done": not is_llama_stack_client(request.headers)}
    encoder = ChatCompletionEncoder(body.model, answering.answer_id, answering.requested_at, **options)
    return ModelStreamReply(answering, encoder) if body.stream else ModelReply(answering, encoder)


ROUTE = Route(
    *("POST", "/v1/openai/v1/chat/completions", create_chat_completion, ChatCompletion, CreateChatCompletion),
    raises=(ModelBusy, ModelError, ModelTimedOut),
    dialect=OPENAI,
    chunk=ChatCompletionChunk,
    stores=False,
)
handler = LambdaHandler(__name__, ROUTE, loads="inferring")
