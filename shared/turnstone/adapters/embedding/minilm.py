"""Embeddings of all-MiniLM-L6-v2 by onnxruntime: the mean of the vectors of a text's pieces.

Source: the model's card; it was trained on texts of up to 256 pieces.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as native

from turnstone.adapters.embedding.files import NETWORK, WORDS
from turnstone.adapters.embedding.word_pieces import BEGIN, END, WordPieces
from turnstone.domain.errors import ModelFailed
from turnstone.domain.models.requests import Embedded, EmbeddingRequest

# its errors have no common base class of their own
FAILURES = (
    RuntimeError,
    native.Fail,
    native.InvalidArgument,
    native.InvalidGraph,
    native.InvalidProtobuf,
    native.RuntimeException,
)
WINDOW = 254  # pieces, with two more for begin and end


class MiniLmEmbeddings:
    """The network of one folder."""

    def __init__(self, folder: Path) -> None:
        """Load the network. Raises ValueError, OSError for files that are missing or not those of `fetching`."""
        vocabulary = json.loads((folder / WORDS).read_bytes())
        if not isinstance(vocabulary, list) or not {BEGIN, END} <= set(vocabulary):
            raise ValueError(f"{folder / WORDS} is not the vocabulary of this model")
        self._pieces = WordPieces(vocabulary)
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # waiting threads take no time
        try:
            network = (folder / NETWORK).read_bytes()
            self._network = onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
        except FAILURES as problem:
            raise ValueError(f"{folder / NETWORK} is not the network of this model") from problem

    def embed(self, request: EmbeddingRequest) -> Embedded:
        """Return vectors of unit length, whatever the requested number of dimensions. Raises ModelFailed."""
        vectors, tokens = [], 0
        for text in request.texts:
            ids = self._pieces.ids(text)
            tokens += len(ids)
            try:
                sums = [self._sum(ids[at : at + WINDOW]) for at in range(0, max(len(ids), 1), WINDOW)]
            except FAILURES as problem:
                raise ModelFailed("the embedding model 'minilm' failed") from problem
            summed = np.sum(sums, axis=0)
            vectors.append(tuple((summed / np.linalg.norm(summed)).tolist()))
        return Embedded(tuple(vectors), tokens)

    def _sum(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Return the sum of the vectors of these pieces, and of begin and end."""
        row = np.array([[self._pieces.begin, *ids, self._pieces.end]], np.int64)
        inputs = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)}
        vectors: NDArray[np.float32] = self._network.run(None, inputs)[0][0]
        summed: NDArray[np.float32] = vectors.sum(axis=0)
        return summed
