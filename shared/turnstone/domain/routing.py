"""Which provider answers for a model, and what its answers cost."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from turnstone.domain.model import Frozen

Usd = Annotated[float, Field(ge=0)]


@dataclass(frozen=True, slots=True)
class Target:
    """A model as one of the configured providers knows it."""

    provider_id: str
    model: str


class Prices(Frozen):
    """What a model costs, in US dollars per million tokens."""

    input: Usd
    output: Usd


@dataclass(frozen=True, slots=True)
class ModelRoute:
    """What is known of a model that an agent names.

    Attributes:
        targets: who is asked, in this order until one begins to answer.
        context_tokens: how much it takes, None where that is not known.
        prices: None where nobody told them.
    """

    model_id: str
    targets: tuple[Target, ...]
    context_tokens: int | None = None
    prices: Prices | None = None
