"""Usage reports: the query, and the sums of a tenant's agents and sessions over days."""

from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta
from math import isfinite

from turnstone.domain.errors import InvalidRequest
from turnstone.domain.usage.prices import Prices
from turnstone.domain.usage.usage import Tokens, added
from turnstone.domain.values.frozen import Frozen

MOST_DAYS = 31
MOST_LISTED = 1_000
ByModel = Mapping[str, Tokens]
PricesOf = Callable[[str], Prices | None]


class UsageQuery(Frozen):
    """The requested agents, sessions and days; all if none is named, and today."""

    agent_id: str | None = None
    session_id: str | None = None
    first_day: date | None = None
    last_day: date | None = None

    def days(self, today: date) -> tuple[date, ...]:
        """Return the days. Raises InvalidRequest for none or too many."""
        last = self.last_day or max(today, self.first_day or today)
        first = self.first_day or min(last, today)
        count = (last - first).days + 1
        if count < 1:
            raise InvalidRequest("`from` must not be after `to`", ("query", "from"))
        if count > MOST_DAYS:
            raise InvalidRequest(f"from: one report covers at most {MOST_DAYS} days, not {count}", ("query", "from"))
        return tuple(first + timedelta(days=number) for number in range(count))


class Sum(Frozen):
    """Tokens, and their costs at the models' current prices; null where a model has none.

    Attributes:
        estimated_inferences: the inferences whose provider reported no tokens, so that they are estimates.
    """

    inferences: int
    estimated_inferences: int
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    cost_usd: float | None


class SumOfDay(Sum):
    day: date


class SumOfModel(Sum):
    model_id: str


class SumOfAgent(Sum):
    agent_id: str


class SumOfSession(Sum):
    session_id: str


class UsageReport(Frozen):
    """Usage of the turns that ended in these days, of the agents and sessions visible to the caller.

    Attributes:
        by_agent: the agents with the highest usage, a thousand at most; `agents` is the number of all.
        by_session: the same for an agent's sessions, if the query names one agent.
    """

    first_day: date
    last_day: date
    total: Sum
    by_day: tuple[SumOfDay, ...]
    by_model: tuple[SumOfModel, ...]
    agents: int
    by_agent: tuple[SumOfAgent, ...]
    sessions: int
    by_session: tuple[SumOfSession, ...]


class UsageCount:
    """Accumulates usage by day, agent and session."""

    def __init__(self, days: Iterable[date]) -> None:
        self._of_days: dict[date, dict[str, Tokens]] = {day: {} for day in days}
        self._of_agents: dict[str, dict[str, Tokens]] = {}
        self._of_sessions: dict[str, dict[str, Tokens]] = {}

    def add(self, day: date, agent_id: str, session_id: str, by_model: ByModel) -> None:
        self._of_days[day] = added(self._of_days[day], by_model)
        self._of_agents[agent_id] = added(self._of_agents.get(agent_id, {}), by_model)
        self._of_sessions[session_id] = added(self._of_sessions.get(session_id, {}), by_model)

    def report(self, prices_of: PricesOf, *, has_sessions: bool) -> UsageReport:
        """Return the accumulated usage with its costs."""
        total: dict[str, Tokens] = {}
        for by_model in self._of_days.values():
            total = added(total, by_model)
        prices = {model_id: prices_of(model_id) for model_id in total}
        sessions = self._of_sessions if has_sessions else {}
        return UsageReport(
            first_day=min(self._of_days),
            last_day=max(self._of_days),
            total=Sum(**_summed(total, prices)),
            by_day=tuple(SumOfDay(day=day, **_summed(spent, prices)) for day, spent in self._of_days.items()),
            by_model=tuple(SumOfModel(model_id=each, **_summed({each: total[each]}, prices)) for each in sorted(total)),
            agents=len(self._of_agents),
            by_agent=tuple(SumOfAgent(agent_id=each, **_summed(s, prices)) for each, s in _most(self._of_agents)),
            sessions=len(self._of_sessions),
            by_session=tuple(SumOfSession(session_id=each, **_summed(s, prices)) for each, s in _most(sessions)),
        )


def _most(spent: Mapping[str, dict[str, Tokens]]) -> list[tuple[str, dict[str, Tokens]]]:
    """Return the entries with the highest usage, the highest first."""

    def rank(one: tuple[str, dict[str, Tokens]]) -> tuple[int, str]:
        name, by_model = one
        return -sum(tokens.total_tokens for tokens in by_model.values()), name

    return sorted(spent.items(), key=rank)[:MOST_LISTED]


def _summed(by_model: ByModel, prices: Mapping[str, Prices | None]) -> dict[str, int | float | None]:
    whole = Tokens()
    for tokens in by_model.values():
        whole = whole.plus(tokens)
    costs = [tokens.cost_usd(prices[model_id]) for model_id, tokens in by_model.items()]
    priced = [cost for cost in costs if cost is not None]
    cost = sum(priced)
    cost_usd = round(cost, 9) if len(priced) == len(costs) and isfinite(cost) else None
    return {**whole.model_dump(), "total_tokens": whole.total_tokens, "cost_usd": cost_usd}
