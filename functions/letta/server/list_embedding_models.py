"""GET /letta/v1/models/embedding: the embedding models of this server."""

from turnstone.dialects.letta.server.models import LettaEmbeddingModels, embedding_models_of
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_embedding_models(request: Request) -> Reply:
    return reply(embedding_models_of(request.use_cases.models.list(request.caller)))


PATH = "/letta/v1/models/embedding"
ROUTE = Route("GET", PATH, list_embedding_models, LettaEmbeddingModels, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="models")
