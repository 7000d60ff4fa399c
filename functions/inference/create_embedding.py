"""POST /v1/openai/v1/embeddings: have a model make vectors of texts, as OpenAI's clients do."""

from turnstone.dialects.openai.embeddings import CreateEmbedding, EmbeddingList, embeddings_frame
from turnstone.domain.errors import ModelBusy, ModelError, ModelTimedOut
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import PiecesReply, joined
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def create_embedding(request: Request) -> PiecesReply:
    body = parse(request, CreateEmbedding)
    embedded = request.use_cases.inferring.embed(request.caller, body.to_texts(), request.provider_data)
    head, entries, tail = embeddings_frame(embedded, body)
    return PiecesReply(joined(head, entries, lambda: tail))


ROUTE = Route(
    "POST",
    "/v1/openai/v1/embeddings",
    create_embedding,
    EmbeddingList,
    CreateEmbedding,
    raises=(ModelBusy, ModelError, ModelTimedOut),
    dialect=OPENAI,
    stores=False,
)
handler = LambdaHandler(__name__, ROUTE, loads="inferring")
