"""POST /v1/inference/completion: have a model continue a text; nothing is stored."""

from turnstone.dialects.llama_stack.completions import (
    CompletionChunk,
    CompletionResponse,
    InferCompletion,
    InferCompletionEncoder,
)
from turnstone.domain.errors import ModelError, ModelTimedOut
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import ModelReply, ModelStreamReply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def infer_completion(request: Request) -> ModelReply | ModelStreamReply:
    body = parse(request, InferCompletion)
    answering = request.use_cases.inferring.complete(request.caller, body.to_texts(), request.provider_data)
    kind = ModelStreamReply if body.stream else ModelReply
    return kind(answering, InferCompletionEncoder())


ROUTE = Route(
    "POST",
    "/v1/inference/completion",
    infer_completion,
    CompletionResponse,
    InferCompletion,
    raises=(ModelError, ModelTimedOut),
    chunk=CompletionChunk,
    stores=False,
)
handler = LambdaHandler(__name__, ROUTE, loads="inferring")
