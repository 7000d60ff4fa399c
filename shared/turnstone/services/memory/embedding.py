"""Vectors of texts, made by the model of a bank."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import ModelFailed
from turnstone.domain.memory.banks import VectorSpace
from turnstone.domain.provider_data import ProviderData

if TYPE_CHECKING:  # a list of banks needs no models
    from turnstone.domain.models.inference import TextsToEmbed
    from turnstone.domain.models.requests import Embedded, EmbeddingPurpose

EMBEDDED_AT_ONCE = 64
LARGEST = 1e18  # of a vector's components; the square of a larger one exceeds single precision
MEASURED = "The length of this text's vector is that of all vectors of the model."


class BankEmbedding:
    """Embedding of texts for one caller after the other."""

    def __init__(self, embed: Callable[[Caller, TextsToEmbed, ProviderData], Embedded]) -> None:
        self._embed = embed

    def dimension(self, caller: Caller, model: str, provider_data: ProviderData) -> int:
        """Return the length of the model's vectors, measured with a text. Raises ModelError."""
        (vector,) = self._embedded(caller, model, (MEASURED,), provider_data, "document").vectors
        if not vector:
            raise ModelFailed(f"model {model!r} makes empty vectors")
        return len(vector)

    def vectors(
        self, caller: Caller, space: VectorSpace, texts: Sequence[str], provider_data: ProviderData
    ) -> list[Sequence[float]]:
        """Return the vector of each text of a document, in single precision.

        Raises:
            ModelError: also for vectors of another length than the bank's, of zeros or with a value that is no number.
        """
        made: list[Sequence[float]] = []
        for begin in range(0, len(texts), EMBEDDED_AT_ONCE):
            some = texts[begin : begin + EMBEDDED_AT_ONCE]
            embedded = self._embedded(caller, space.model, some, provider_data, "document")
            made += (array("f", vector) for vector in embedded.vectors)
        _check(made, space)
        return made

    def of_question(
        self, caller: Caller, space: VectorSpace, text: str, provider_data: ProviderData
    ) -> tuple[Sequence[float], int | None]:
        """Return the vector of a question, and the number of its tokens if the model counts them. Raises ModelError."""
        embedded = self._embedded(caller, space.model, (text,), provider_data, "query")
        _check(embedded.vectors, space)
        return embedded.vectors[0], embedded.tokens

    def _embedded(
        self, caller: Caller, model: str, texts: Sequence[str], provider_data: ProviderData, purpose: EmbeddingPurpose
    ) -> Embedded:
        from turnstone.domain.models.inference import TextsToEmbed

        return self._embed(caller, TextsToEmbed(model, tuple(texts), purpose=purpose), provider_data)


def _check(vectors: Iterable[Sequence[float]], space: VectorSpace) -> None:
    """Raise ModelFailed for a vector that can't be compared with those of the bank."""
    for vector in vectors:
        if len(vector) != space.dimension:
            problem = f"makes vectors of {len(vector)} dimensions, not the {space.dimension} of the bank"
            raise ModelFailed(f"model {space.model!r} {problem}")
        if not 0 < sum(map(abs, vector)) < inf:  # false for NaN
            raise ModelFailed(f"model {space.model!r} made a vector of zeros, or with a value that is no finite number")
        if max(map(abs, vector)) > LARGEST:
            raise ModelFailed(f"model {space.model!r} made a vector with values beyond ±{LARGEST:g}")
