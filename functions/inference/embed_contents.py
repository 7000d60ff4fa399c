"""POST /v1/inference/embeddings: have a model make vectors of texts."""

from turnstone.dialects.llama_stack.inference_replies import EmbeddingsResponse, embeddings_frame
from turnstone.dialects.llama_stack.inference_requests import EmbedContents
from turnstone.domain.errors import ModelBusy, ModelError, ModelTimedOut
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import PiecesReply, joined
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def embed_contents(request: Request) -> PiecesReply:
    texts = parse(request, EmbedContents).to_texts()
    embedded = request.use_cases.inferring.embed(request.caller, texts, request.provider_data)
    head, vectors, tail = embeddings_frame(embedded)
    return PiecesReply(joined(head, vectors, lambda: tail))


ROUTE = Route(
    "POST",
    "/v1/inference/embeddings",
    embed_contents,
    EmbeddingsResponse,
    EmbedContents,
    raises=(ModelBusy, ModelError, ModelTimedOut),
    stores=False,
)
handler = LambdaHandler(__name__, ROUTE, loads="inferring")
