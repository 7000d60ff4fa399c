"""The server and its models in Letta's API."""

from collections.abc import Iterable
from typing import Literal

from pydantic import RootModel

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
