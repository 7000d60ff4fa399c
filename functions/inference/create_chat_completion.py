"""POST /v1/openai/v1/chat/completions: ask a model directly, as OpenAI's clients do; nothing is stored."""

from turnstone.dialects.openai.chat_replies import ChatCompletion, ChatCompletionChunk, ChatCompletionEncoder
from turnstone.dialects.openai.chat_requests import CreateChatCompletion
from turnstone.dialects.openai.errors import OPENAI
from turnstone.domain.errors import ModelBusy, ModelError, ModelTimedOut
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.clients import is_llama_stack_client
from turnstone.http.routes import ModelReply, ModelStreamReply, Request, Route, parse


def create_chat_completion(request: Request) -> ModelReply | ModelStreamReply:
    body = parse(request, CreateChatCompletion)
    answering = request.application.inferring.chat(request.caller, body.to_question(), request.provider_data)
    told = {"tells_usage": body.tells_usage, "says_done": not is_llama_stack_client(request.headers)}
    encoder = ChatCompletionEncoder(body.model, answering.answer_id, answering.asked_at, **told)
    return ModelStreamReply(answering, encoder) if body.stream else ModelReply(answering, encoder)


ROUTE = Route(
    "POST",
    "/v1/openai/v1/chat/completions",
    create_chat_completion,
    ChatCompletion,
    CreateChatCompletion,
    raises=(ModelBusy, ModelError, ModelTimedOut),
    envelope=OPENAI,
    chunk=ChatCompletionChunk,
    stores=False,
)
handler = LambdaHandler(__name__, ROUTE, loads="inferring")
