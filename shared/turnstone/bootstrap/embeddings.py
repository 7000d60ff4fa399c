"""Building of embeddings: the providers of the operator's catalogue, each made at its first call."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from turnstone.adapters.embedding.files import folder_of
from turnstone.adapters.embedding.local import LocalEmbeddings
from turnstone.adapters.models.offline.offline_embeddings import OfflineEmbeddings
from turnstone.adapters.models.routed_embeddings import RoutedEmbeddings
from turnstone.bootstrap.models import CALLER_KEY, ProviderDeps
from turnstone.domain.models.local_embeddings import HASHED_WORDS, LOCAL_EMBEDDINGS, LocalEmbeddingChoice
from turnstone.domain.models.routing import DEFAULT_PROVIDER
from turnstone.settings.config import OFFLINE

if TYPE_CHECKING:
    from turnstone.adapters.models.openai.model_access import ModelAccess
    from turnstone.domain.registry.catalogue import BedrockProvider, Catalogue, ProviderEntry
    from turnstone.ports.models import Embeddings


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
    return cache(lambda: LocalEmbeddings(Path(folder_of(choice)), {HASHED_WORDS: OfflineEmbeddings}))


def _maker(name: str, entry: ProviderEntry, deps: ProviderDeps) -> Callable[[], Embeddings]:
    def make() -> Embeddings:
        match entry.type:
            case "offline":
                return OfflineEmbeddings()
            case "openai":
                url, access = deps.openai_access(name, entry)
                return _build_openai(url, access, entry.timeout_seconds or deps.timeout_s)
            case "bedrock":
                return _build_bedrock(entry, deps)

    return cache(make)


def _build_openai(url: str, access: ModelAccess, timeout_s: float) -> Embeddings:
    from turnstone.adapters.models.openai.openai_embeddings import (
        OpenAICompatibleEmbeddings,  # urllib3: only where a model is called
    )

    return OpenAICompatibleEmbeddings(url, access, timeout_s)


def _build_bedrock(entry: BedrockProvider, deps: ProviderDeps) -> Embeddings:
    clients = deps.aws()
    from turnstone.adapters.models.bedrock.bedrock_client import (
        build_bedrock_client,  # botocore's parsers: only where Bedrock is called
    )
    from turnstone.adapters.models.bedrock.bedrock_embeddings import BedrockEmbeddings

    timeout_s = entry.timeout_seconds or deps.timeout_s
    return BedrockEmbeddings(cache(lambda: build_bedrock_client(clients, entry.region, timeout_s)))
