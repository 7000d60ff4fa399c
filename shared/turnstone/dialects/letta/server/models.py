"""The server and its models in Letta's API."""

from collections.abc import Iterable
from typing import Literal

from pydantic import RootModel

from turnstone.domain.letta.agents import DEFAULT_CHUNK_SIZE
from turnstone.domain.registry.registry import Model
from turnstone.domain.values.frozen import Frozen

VERSION = "0.6.12"  # of the API that this server speaks
WINDOW_TOKENS = 8_192  # shown where no context window is configured


class LettaHealth(Frozen):
    """The server answers."""

    version: str = VERSION
    status: Literal["ok"] = "ok"


class LettaModel(Frozen):
    """A model that agents may name."""

    model: str
    model_endpoint_type: str = "openai"
    model_endpoint: str | None = None
    model_wrapper: str | None = None
    context_window: int
    put_inner_thoughts_in_kwargs: bool = True
    handle: str


class LettaModels(RootModel[tuple[LettaModel, ...]]):
    """The models that agents may name."""


def models_of(models: Iterable[Model]) -> LettaModels:
    """Return the models that infer as the API shows them."""
    found = (model for model in models if model.model_type == "llm")
    return LettaModels(
        tuple(
            LettaModel(
                model=model.identifier,
                context_window=int(model.metadata.get("context_tokens") or WINDOW_TOKENS),
                handle=model.identifier,
            )
            for model in found
        )
    )


class LettaEmbeddingModel(Frozen):
    """An embedding model of this server."""

    embedding_endpoint_type: str = "openai"
    embedding_endpoint: str | None = None
    embedding_model: str
    embedding_dim: int
    embedding_chunk_size: int = DEFAULT_CHUNK_SIZE
    handle: str
    azure_endpoint: str | None = None
    azure_version: str | None = None
    azure_deployment: str | None = None


class LettaEmbeddingModels(RootModel[tuple[LettaEmbeddingModel, ...]]):
    """The embedding models of this server."""


def embedding_models_of(models: Iterable[Model]) -> LettaEmbeddingModels:
    """Return the models that embed as the API shows them; their dimension is 0 if the operator set none."""
    found = (model for model in models if model.model_type == "embedding")
    return LettaEmbeddingModels(
        tuple(
            LettaEmbeddingModel(
                embedding_model=model.identifier,
                embedding_dim=int(model.metadata.get("embedding_dimension") or 0),
                handle=model.identifier,
            )
            for model in found
        )
    )
