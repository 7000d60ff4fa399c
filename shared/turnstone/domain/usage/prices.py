"""What the tokens of a model cost."""

from typing import Annotated

from pydantic import Field

from turnstone.domain.values.frozen import Frozen

Usd = Annotated[float, Field(ge=0)]


class Prices(Frozen):
    """What a model costs, in US dollars per million tokens."""

    input: Usd
    output: Usd
