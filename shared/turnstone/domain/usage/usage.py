"""Token usage: of a turn, of a session in a day, and the costs."""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Annotated, Protocol

from pydantic import BeforeValidator

from turnstone.domain.usage.prices import Prices
from turnstone.domain.values.frozen import Frozen

MILLION = 1_000_000
MOST_COUNTED = 1_000_000_000  # of one inference; more than any model processes or reports
MOST_STORED = 1_000_000_000_000_000  # of a day, or of a turn
LEAST_ESTIMATE = 200
SMALLEST_FACTOR, LARGEST_FACTOR = 0.25, 4.0


def reported_count(value: object) -> int | None:
    """Return a provider's reported number of tokens, None for anything but a whole number from 0 to 10^9."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and 0 <= value <= MOST_COUNTED else None  # type: ignore[return-value,operator] # whole


def _possible(value: object) -> object:
    """Return a stored number, 0 for an impossible one, stored before counts were bounded."""
    return 0 if isinstance(value, int) and not 0 <= value <= MOST_STORED else value


Stored = Annotated[int, BeforeValidator(_possible)]


class Tokens(Frozen):
    """The tokens of some inferences.

    Attributes:
        estimated_inferences: how many of them reported no tokens, and count with our estimates.
    """

    inferences: Stored = 0
    prompt_tokens: Stored = 0
    completion_tokens: Stored = 0
    estimated_inferences: Stored = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def plus(self, other: "Tokens") -> "Tokens":
        sums = {name: getattr(self, name) + getattr(other, name) for name in Tokens.model_fields}
        return Tokens.model_construct(**sums)

    def cost_usd(self, prices: Prices | None) -> float | None:
        """Return the costs in US dollars, None without prices."""
        if prices is None:
            return None
        return (self.prompt_tokens * prices.input + self.completion_tokens * prices.output) / MILLION


class TokenUsage(Frozen):
    """Tokens of one inference, as the model's provider counted them.

    Attributes:
        estimated_prompt_tokens: our estimate of the same prompt, 0 without one.
        is_estimated: whether the provider reported nothing, so that all numbers are our estimates.
    """

    prompt_tokens: Stored = 0
    completion_tokens: Stored = 0
    total_tokens: Stored = 0
    estimated_prompt_tokens: Stored = 0
    is_estimated: bool = False

    @property
    def spent(self) -> Tokens:
        return Tokens.model_construct(
            inferences=1,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            estimated_inferences=int(self.is_estimated),
        )


class SpentToday(Frozen):
    """A session's usage on the last day with any, by model."""

    day: date
    by_model: dict[str, Tokens]

    @property
    def total_tokens(self) -> int:
        return sum(tokens.total_tokens for tokens in self.by_model.values())


class Measured(Protocol):
    """Reported tokens next to the estimate for the same texts; 0 without either."""

    @property
    def prompt_tokens(self) -> int: ...

    @property
    def estimated_prompt_tokens(self) -> int: ...


def added(first: Mapping[str, Tokens], second: Mapping[str, Tokens]) -> dict[str, Tokens]:
    """Return the sum of both, by model."""
    total = dict(first)
    for model, tokens in second.items():
        total[model] = total[model].plus(tokens) if model in total else tokens
    return total


def spent_by(before: SpentToday | None, by_model: Mapping[str, Tokens], at: datetime) -> SpentToday | None:
    """Return the usage on the day of that time, including earlier usage on it.

    A clock set back continues with the later day, whose count must not restart.
    """
    if not by_model:
        return before
    day = at.astimezone(UTC).date()
    if before is None or day > before.day:
        return SpentToday(day=day, by_model=dict(by_model))
    return SpentToday(day=before.day, by_model=added(before.by_model, by_model))


def factor_of(measured: Iterable[Measured], otherwise: float) -> float:
    """Return the model's tokens per estimated token, from the last usable measurement.

    Short texts measure the model's own frame rather than the texts; outliers count something else.
    """
    for one in reversed(tuple(measured)):
        if one.estimated_prompt_tokens >= LEAST_ESTIMATE:
            factor = one.prompt_tokens / one.estimated_prompt_tokens
            if SMALLEST_FACTOR <= factor <= LARGEST_FACTOR:
                return round(factor, 3)
    return otherwise
