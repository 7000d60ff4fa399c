"""The embedding models that this server runs itself, beside those of its providers."""

from __future__ import annotations

from collections.abc import Collection
from types import MappingProxyType
from typing import Literal, NamedTuple

from turnstone.domain.models.routing import ConfiguredModels, ModelRoute, Target

LOCAL_EMBEDDINGS = "turnstone-embeddings"  # the provider
LOCAL = "local"  # its kind
STATIC, MINILM, HASHED_WORDS = "static", "minilm", "hashed-words"
DIMENSIONS = MappingProxyType({STATIC: 256, MINILM: 384, HASHED_WORDS: 384})


class LocalEmbeddingChoice(NamedTuple):
    """The choice of this server's own embedding models.

    Attributes:
        local: the model where a client names none; `off` for a server without models of its own.
        default: a model of a provider for that instead.
        folder: of the models' files; None for the folder beside the package.
    """

    local: Literal["static", "minilm", "off"] = "static"
    default: str | None = None
    folder: str | None = None

    def added_to(self, configured: ConfiguredModels, present: Collection[str]) -> ConfiguredModels:
        """Return the configuration with the models of this server; a configured model of the same name replaces one.

        Args:
            present: the models whose files are on this machine. Hashed words need none.
        """
        if self.local == "off":
            return configured._replace(embedding=self.default)
        routes = {
            name: ModelRoute(name, (Target(LOCAL_EMBEDDINGS, name),), embedding_dimension=dimension)
            for name, dimension in DIMENSIONS.items()
        }
        own = self.local if self.local in present else HASHED_WORDS
        return configured._replace(
            providers={**configured.providers, LOCAL_EMBEDDINGS: LOCAL},
            routes={**routes, **configured.routes},
            embedding=self.default or own,
            unlisted=frozenset(routes) - frozenset((*present, own, *configured.routes)),
        )
