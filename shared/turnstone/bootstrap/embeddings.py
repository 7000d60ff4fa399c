"""Who makes embeddings: the providers of the operator's catalogue, each made when it is first asked."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from turnstone.adapters.models.offline.offline_embeddings import OfflineEmbeddings
from turnstone.adapters.models.routed_embeddings import RoutedEmbeddings
from turnstone.bootstrap.models import CALLER_KEY, Means
from turnstone.domain.errors import Unsupported
from turnstone.domain.models.requests import EmbeddingRequest
from turnstone.domain.models.routing import DEFAULT_PROVIDER
from turnstone.settings.config import OFFLINE

if TYPE_CHECKING:
    from turnstone.adapters.models.openai.model_access import ModelAccess
    from turnstone.domain.models.requests import Embedded
    from turnstone.domain.registry.catalogue import Catalogue, ProviderEntry
    from turnstone.ports.models import Embeddings


class NoEmbeddings:
    """A provider whose models this server asks for no embeddings."""

    def __init__(self, provider_id: str, kind: str) -> None:
        self._told = f"provider {provider_id!r} ({kind})"

    def embed(self, request: EmbeddingRequest) -> Embedded:
        """Raise Unsupported."""
        provider = f"{self._told}, the provider of {request.model!r}"
        message = f"model: this server makes no embeddings with {provider}; choose another model"
        raise Unsupported(message, ("model",))


def build_embeddings(catalogue: Catalogue, means: Means) -> RoutedEmbeddings:
    """Return all providers of the catalogue as one."""
    made = {name: _maker(name, entry, means) for name, entry in catalogue.providers.items()}
    return RoutedEmbeddings(made, catalogue.configured_models().default)


def build_only_embeddings(model_url: str, key: Callable[[], str | None], timeout_s: float) -> RoutedEmbeddings:
    """Return the model at that address as the one provider, or the offline one if that is the name given."""

    def asked() -> Embeddings:
        from turnstone.adapters.models.openai.model_access import ModelAccess

        return _build_openai(model_url, ModelAccess(key(), CALLER_KEY), timeout_s)

    maker: Callable[[], Embeddings] = OfflineEmbeddings if model_url == OFFLINE else asked
    return RoutedEmbeddings({DEFAULT_PROVIDER: cache(maker)}, DEFAULT_PROVIDER).load()


def _maker(name: str, entry: ProviderEntry, means: Means) -> Callable[[], Embeddings]:
    def make() -> Embeddings:
        match entry.type:
            case "offline":
                return OfflineEmbeddings()
            case "openai":
                url, access = means.openai_access(name, entry)
                return _build_openai(url, access, entry.timeout_seconds or means.timeout_s)
            case "bedrock":
                return NoEmbeddings(name, entry.type)

    return cache(make)


def _build_openai(url: str, access: ModelAccess, timeout_s: float) -> Embeddings:
    from turnstone.adapters.models.openai.openai_embeddings import (
        OpenAICompatibleEmbeddings,  # urllib3: only where a model is called
    )

    return OpenAICompatibleEmbeddings(url, access, timeout_s)
