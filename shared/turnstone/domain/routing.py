"""Which provider answers for a model, and what its answers cost."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, NamedTuple

from pydantic import Field

from turnstone.domain.model import Frozen

MODELS = "default"  # the provider that the environment names
Usd = Annotated[float, Field(ge=0)]


class Target(NamedTuple):
    """A model as one of the configured providers knows it."""

    provider_id: str
    model: str


class Prices(Frozen):
    """What a model costs, in US dollars per million tokens."""

    input: Usd
    output: Usd


class ModelRoute(NamedTuple):
    """What is known of a model that an agent names.

    Attributes:
        targets: who is asked, in this order until one begins to answer.
        context_tokens: how much it takes, None where that is not known.
        prices: None where nobody told them.
        embedding_dimension: how long its vectors are, None of a model that talks.
    """

    model_id: str
    targets: tuple[Target, ...]
    context_tokens: int | None = None
    prices: Prices | None = None
    embedding_dimension: int | None = None


class KnownModels(NamedTuple):
    """What the operator of a server says of models.

    Attributes:
        providers: the kind of each provider, by its name.
        default: who is asked for a model that nobody knows, by the name it is given; None if the registry is closed.
        routes: the models that the operator lists, by each of their names.
    """

    providers: Mapping[str, str]
    default: str | None
    routes: Mapping[str, ModelRoute] = MappingProxyType({})
