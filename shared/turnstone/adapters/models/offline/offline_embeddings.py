"""Embeddings of a server without a model: hashed words, so that texts with common words are close to each other."""

import math
import re
from collections import Counter
from hashlib import blake2b

from turnstone.domain.models.requests import Embedded, EmbeddingRequest

DIMENSIONS = 384
CHARACTERS_PER_TOKEN = 4
WORD = re.compile(r"\w+")


class OfflineEmbeddings:
    """Creates vectors of unit length, deterministic on every machine, without semantics."""

    def embed(self, request: EmbeddingRequest) -> Embedded:
        """Return vectors of 384 dimensions, whatever the requested number; it never fails."""
        tokens = sum(max(1, len(text) // CHARACTERS_PER_TOKEN) for text in request.texts)
        return Embedded(tuple(map(hashed_vector, request.texts)), tokens)


def hashed_vector(text: str) -> tuple[float, ...]:
    """Return the text's vector: each word adds its dampened count to one dimension."""
    sums = [0.0] * DIMENSIONS
    for word, count in Counter(WORD.findall(text.casefold())).items():
        dimension, sign = _dimension_of(word)
        sums[dimension] += sign * (1.0 + math.log(count))
    length = math.hypot(*sums)
    if not length:  # no words, or words that cancel each other
        dimension, sign = _dimension_of(text)
        sums[dimension] = length = sign
    return tuple(value / length for value in sums)


def _dimension_of(word: str) -> tuple[int, float]:
    digest = blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
    number = int.from_bytes(digest)
    return number % DIMENSIONS, 1.0 if number >> 63 else -1.0
