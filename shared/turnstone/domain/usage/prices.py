"""Prices of a model's tokens."""

from typing import Annotated

from pydantic import Field

from turnstone.domain.values.frozen import Frozen

Usd = Annotated[float, Field(ge=0)]


class Prices(Frozen):
    """A model's prices, in US dollars per million tokens."""

    input: Usd
    output: Usd
