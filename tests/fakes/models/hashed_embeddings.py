"""Embeddings without files or network, in the length of each model of the server itself."""

from turnstone.adapters.models.offline.offline_embeddings import DIMENSIONS, OfflineEmbeddings
from turnstone.domain.models.local_embeddings import DIMENSIONS as LENGTHS
from turnstone.domain.models.requests import Embedded, EmbeddingRequest


class HashedEmbeddings:
    """Vectors of hashed words, whatever the model."""

    def embed(self, request: EmbeddingRequest) -> Embedded:
        hashed = OfflineEmbeddings().embed(request)
        length = LENGTHS.get(request.model, DIMENSIONS)
        return hashed._replace(vectors=tuple(_folded(vector, length) for vector in hashed.vectors))


def _folded(vector: tuple[float, ...], length: int) -> tuple[float, ...]:
    return tuple(sum(vector[at::length]) for at in range(length))
