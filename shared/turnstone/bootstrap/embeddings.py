"""Building of embeddings: the providers of the operator's catalogue, each made at its first call."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from turnstone.adapters.embedding.files import folder_of
from turnstone.adapters.embedding.local import LocalEmbeddings
from turnstone.adapters.models.offline.offline_embeddings import OfflineEmbeddings
from turnstone.adapters.models.routed_embeddings import RoutedEmbeddings
from turnstone.bootstrap.models import CALLER_KEY, ProviderDeps
from turnstone.domain.errors import Unsupported
from turnstone.domain.models.local_embeddings import HASHED_WORDS, LOCAL_EMBEDDINGS, LocalEmbeddingChoice
from turnstone.domain.models.requests import EmbeddingRequest
from turnstone.domain.models.routing import DEFAULT_PROVIDER
from turnstone.settings.config import OFFLINE

if TYPE_CHECKING:
    from turnstone.adapters.models.openai.model_access import ModelAccess
    from turnstone.domain.models.requests import Embedded
    from turnstone.domain.registry.catalogue import Catalogue, ProviderEntry
    from turnstone.ports.models import Embeddings


class NoEmbeddings:
    """A provider without embeddings on this server."""

    def __init__(self, provider_id: str, kind: str) -> None:
        self._provider = f"provider {provider_id!r} ({kind})"

    def embed(self, request: EmbeddingRequest) -> Embedded:
        """Raise Unsupported."""
        provider = f"{self._provider}, the provider of {request.model!r}"
        message = f"model: this server makes no embeddings with {provider}; choose another model"
        raise Unsupported(message, ("model",))


def build_embeddings(catalogue: Catalogue, deps: ProviderDeps) -> RoutedEmbeddings:
    """Return one adapter that routes to all providers of the catalogue, and to the models of this server."""
    made = {name: _maker(name, entry, deps) for name, entry in catalogue.providers.items()}
    made[LOCAL_EMBEDDINGS] = _local(catalogue.local_embeddings())
    return RoutedEmbeddings(made, catalogue.configured_models().default)


def build_only_embeddings(model_url: str, key: Callable[[], str | None], timeout_s: float) -> RoutedEmbeddings:
    """Return an adapter with one provider, the model server at that URL or the offline model, and this server."""

    def make() -> Embeddings:
        from turnstone.adapters.models.openai.model_access import ModelAccess

        return _build_openai(model_url, ModelAccess(key(), CALLER_KEY), timeout_s)

    maker: Callable[[], Embeddings] = OfflineEmbeddings if model_url == OFFLINE else make
    made: dict[str, Callable[[], Embeddings]] = {DEFAULT_PROVIDER: cache(maker)}
    made[LOCAL_EMBEDDINGS] = _local(LocalEmbeddingChoice())
    return RoutedEmbeddings(made, DEFAULT_PROVIDER).load()


def _local(choice: LocalEmbeddingChoice) -> Callable[[], Embeddings]:
    return cache(lambda: LocalEmbeddings(folder_of(choice), {HASHED_WORDS: OfflineEmbeddings}))


def _maker(name: str, entry: ProviderEntry, deps: ProviderDeps) -> Callable[[], Embeddings]:
    def make() -> Embeddings:
        match entry.type:
            case "offline":
                return OfflineEmbeddings()
            case "openai":
                url, access = deps.openai_access(name, entry)
                return _build_openai(url, access, entry.timeout_seconds or deps.timeout_s)
            case "bedrock":
                return NoEmbeddings(name, entry.type)

    return cache(make)


def _build_openai(url: str, access: ModelAccess, timeout_s: float) -> Embeddings:
    from turnstone.adapters.models.openai.openai_embeddings import (
        OpenAICompatibleEmbeddings,  # urllib3: only where a model is called
    )

    return OpenAICompatibleEmbeddings(url, access, timeout_s)
