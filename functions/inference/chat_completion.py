"""POST /v1/inference/chat-completion: call a model directly, without storing its answer."""

from turnstone.dialects.llama_stack.inference_replies import (
    ChatCompletionResponse,
    ChatCompletionStreamChunk,
    InferChatCompletionEncoder,
)
from turnstone.dialects.llama_stack.inference_requests import InferChatCompletion
from turnstone.domain.errors import ModelBusy, ModelError, ModelTimedOut
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import ModelReply, ModelStreamReply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def chat_completion(request: Request) -> ModelReply | ModelStreamReply:
    body = parse(request, InferChatCompletion)
    answering = request.use_cases.inferring.chat(request.caller, body.to_question(), request.provider_data)
    kind = ModelStreamReply if body.stream else ModelReply
    return kind(answering, InferChatCompletionEncoder())


ROUTE = Route(
    "POST",
    "/v1/inference/chat-completion",
    chat_completion,
    ChatCompletionResponse,
    InferChatCompletion,
    raises=(ModelBusy, ModelError, ModelTimedOut),
    chunk=ChatCompletionStreamChunk,
    stores=False,
)
handler = LambdaHandler(__name__, ROUTE, loads="inferring")
