"""What answers questions and makes vectors: models and their providers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:  # a caller that only names the port needs none of these
    from turnstone.domain.models.requests import Embedded, EmbeddingRequest, InferenceRequest, Inferred, TextChunk
    from turnstone.domain.models.routing import Target


Capability = Literal["grammar"]


class Inference(Protocol):
    """A model, or a provider of many."""

    def stream(self, request: InferenceRequest) -> Iterator[TextChunk | Inferred]:
        """Yield the answer as it arrives; the last item, and only that, is Inferred.

        Closing the generator early breaks off the request.

        Raises:
            InvalidRequest: it asks for what its provider does not offer.
            ModelFailed: the provider refused the request or broke off.
            ModelTimedOut: it was silent for too long.
        """

    def models(self) -> tuple[str, ...]:
        """Return the ids of the models that can be asked. Raises ModelError."""

    def capabilities(self, targets: Sequence[Target] = ()) -> frozenset[Capability]:
        """Return what each of these targets can do, without asking them; where none is named, whoever would be asked.

        What is not among them is refused before a turn opens.
        """


class Embeddings(Protocol):
    """A model that makes vectors of texts, or a provider of many."""

    def embed(self, request: EmbeddingRequest) -> Embedded:
        """Return a vector for each text. One that can't make them as long as asked makes them as it can.

        Raises:
            Unsupported: the provider makes no embeddings.
            ModelFailed: it refused the request or broke off.
            ModelTimedOut: it was silent for too long.
        """
