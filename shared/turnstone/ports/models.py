"""Models and embeddings, and their providers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:  # needless for a caller that only names the port
    from turnstone.domain.models.requests import Embedded, EmbeddingRequest, InferenceRequest, Streamed
    from turnstone.domain.models.routing import Target


Capability = Literal["grammar"]


class Inference(Protocol):
    """A model, or a provider of many."""

    def stream(self, request: InferenceRequest) -> Iterator[Streamed]:
        """Yield the answer as it arrives; the last item, and only that, is Inferred.

        A provider without reasoning, or without calls in parts, yields no such pieces. Calls begin in the order of the
        answer's calls, and the text of a call's `ArgumentsChunk`s is its `arguments_json`.

        Closing the generator early cancels the request.

        Raises:
            InvalidRequest: the provider does not support a field of the request.
            ModelFailed: the provider refused the request or aborted the answer.
            ModelTimedOut: the provider sent nothing within the timeout.
        """

    def models(self) -> tuple[str, ...]:
        """Return the ids of the models. Raises ModelError."""

    def capabilities(self, targets: Sequence[Target] = ()) -> frozenset[Capability]:
        """Return the capabilities of each of these targets, without a request; if none, of the default provider.

        Any other capability is refused before a turn opens.
        """


class Embeddings(Protocol):
    """An embedding model, or a provider of many."""

    def embed(self, request: EmbeddingRequest) -> Embedded:
        """Return a vector for each text. A model without a choice of dimensions ignores the requested number.

        Raises:
            Unsupported: the provider makes no embeddings.
            ModelFailed: the provider refused the request or aborted the answer.
            ModelTimedOut: the provider sent nothing within the timeout.
        """
