"""Embeddings from a table: the mean of the vectors of a text's tokens.

Nothing is computed by a neural network, so that a text takes less than a millisecond. The table is mapped, not read.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from turnstone.adapters.embedding.byte_pairs import BytePairs
from turnstone.adapters.embedding.files import TABLE, VOCABULARY
from turnstone.domain.models.requests import Embedded, EmbeddingRequest

DIMENSIONS = 256
TOKENS = 32_000
TABLE_BYTES = TOKENS * DIMENSIONS * 2


class StaticEmbeddings:
    """The table and vocabulary of one folder."""

    def __init__(self, folder: Path) -> None:
        """Map the table. Raises ValueError, OSError for files that are missing or not those of `fetching`."""
        vocabulary = json.loads((folder / VOCABULARY).read_bytes())
        size = (folder / TABLE).stat().st_size
        if size != TABLE_BYTES or not isinstance(vocabulary, list) or len(vocabulary) != TOKENS:
            raise ValueError(f"{folder} has no table of {TOKENS:,} vectors; `turnstone embeddings fetch` writes it")
        self._table = np.memmap(folder / TABLE, np.float16, "r", shape=(TOKENS, DIMENSIONS))
        self._tokens = BytePairs(vocabulary)

    def embed(self, request: EmbeddingRequest) -> Embedded:
        """Return vectors of unit length; fewer dimensions are the first ones, for which the table was trained, too."""
        length = min(request.dimensions or DIMENSIONS, DIMENSIONS)
        vectors, tokens = [], 0
        for text in request.texts:
            ids = self._tokens.ids(text)
            tokens += len(ids)
            vector = self._mean(ids)[:length]
            vectors.append(tuple((vector / np.linalg.norm(vector)).tolist()))
        return Embedded(tuple(vectors), tokens)

    def _mean(self, ids: list[int]) -> NDArray[np.float32]:
        """Return the sum of the tokens' vectors; repeated ones count by the logarithm, as for keywords."""
        counts = Counter(ids or (0,))  # an empty text is the unknown token
        weights = 1 + np.log(np.fromiter(counts.values(), np.float32, len(counts)))
        rows = self._table[np.fromiter(counts, np.intp, len(counts))].astype(np.float32)
        summed: NDArray[np.float32] = weights @ rows
        return summed
