"""The embedding models of this server, each loaded at its first text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from turnstone.adapters.embedding.files import absence_of
from turnstone.domain.errors import ModelFailed, ModelNotFound

if TYPE_CHECKING:
    from turnstone.domain.models.requests import Embedded, EmbeddingRequest
    from turnstone.ports.models import Embeddings


class LocalEmbeddings:
    """The models whose files are in one folder, and others."""

    def __init__(self, folder: Path, others: Mapping[str, Callable[[], Embeddings]]) -> None:
        """Take the folder, and factories of models without files, by name."""
        self._makers: dict[str, Callable[[], Embeddings]] = {
            "static": lambda: _static(folder),
            "minilm": lambda: _minilm(folder),
            **others,
        }
        self._made: dict[str, Embeddings] = {}
        self._lock = Lock()

    def embed(self, request: EmbeddingRequest) -> Embedded:
        """Return a vector for each text. Raises ModelNotFound, and ModelFailed if the model's files are not here."""
        if request.model not in self._makers:
            raise ModelNotFound(f"this server has no embedding model {request.model!r} of its own")
        return self._model(request.model).embed(request)

    def _model(self, name: str) -> Embeddings:
        with self._lock:
            if name not in self._made:
                try:
                    self._made[name] = self._makers[name]()
                except (OSError, ValueError, ImportError) as problem:
                    raise ModelFailed(str(absence_of(name))) from problem
            return self._made[name]


def _static(folder: Path) -> Embeddings:
    from turnstone.adapters.embedding.static import StaticEmbeddings

    return StaticEmbeddings(folder)


def _minilm(folder: Path) -> Embeddings:
    from turnstone.adapters.embedding.minilm import MiniLmEmbeddings

    return MiniLmEmbeddings(folder)
