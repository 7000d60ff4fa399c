"""Limits of tokens, iterations and time: of a turn, and of a tenant's day."""

from datetime import UTC, date, datetime, time, timedelta
from threading import Lock
from typing import NamedTuple

from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import DayLimitReached, TurnTimeReached
from turnstone.domain.turns.turns import TurnState
from turnstone.domain.values.moments import Moment
from turnstone.ports.system import Clock
from turnstone.store.usage.usage import UsageStore

READ_EVERY = timedelta(seconds=10)
MOST_TENANTS = 1_000


class _Reading(NamedTuple):
    """The tokens that a tenant had spent on a day when they were read."""

    day: date
    tokens: int
    at: Moment


class DayLimit:
    """Refuses new turns of a tenant that has spent its tokens of the day.

    Tokens count once their turn has ended, and each process reads them every ten seconds, so that running turns may
    exceed the limit.
    """

    def __init__(self, store: UsageStore, clock: Clock, most_tokens: int | None) -> None:
        self._store = store
        self._clock = clock
        self._most_tokens = most_tokens
        self._readings: dict[str, _Reading] = {}
        self._lock = Lock()

    def check(self, tenant: str) -> None:
        """Raise DayLimitReached if the tenant may begin no turn today. Reads nothing where there is no limit."""
        if self._most_tokens is None:
            return
        now = self._clock.now().astimezone(UTC)
        if self._spent(tenant, now) >= self._most_tokens:
            midnight = datetime.combine(now.date() + timedelta(days=1), time(), UTC)
            raise DayLimitReached(self._most_tokens, midnight - now)

    def _spent(self, tenant: str, now: datetime) -> int:
        moment = Moment(now, self._clock.monotonic_s())
        with self._lock:
            reading = self._readings.get(tenant)
        if reading is not None and reading.day == now.date() and reading.at.is_within(READ_EVERY, moment):
            return reading.tokens
        tokens = sum(spent.total_tokens for spent in self._store.of_tenant(tenant, now.date()))
        with self._lock:
            if len(self._readings) >= MOST_TENANTS:
                self._readings.clear()
            self._readings[tenant] = _Reading(now.date(), tokens, moment)
        return tokens


class Limits(NamedTuple):
    """The limits of a turn.

    Attributes:
        turn_tokens: tokens that a turn may spend, None for any number.
        of_day: tokens that a tenant may spend in a day.
        infer_iters: inferences of a turn at most, even if its agent allows more.
        turn_seconds: running time of a turn at most, None for any time.
    """

    turn_tokens: int | None
    of_day: DayLimit
    infer_iters: int
    turn_seconds: float | None

    def runs_for_s(self, state: TurnState) -> float | None:
        """Return for how many seconds the turn may run if it starts or resumes now, None for any."""
        return None if self.turn_seconds is None else self.turn_seconds - state.running_time.total_seconds()

    def check_turn(self, state: TurnState) -> None:
        """Raise TurnLimitReached or TurnTimeReached for a turn that would fail before its next model request."""
        from turnstone.engine.measuring import refuse_over_limit  # only where turns run

        refuse_over_limit(state, self.turn_tokens)
        if self.turn_seconds is not None and state.running_time.total_seconds() >= self.turn_seconds:
            raise TurnTimeReached(self.turn_seconds)

    def applied_to(self, config: AgentConfig) -> AgentConfig:
        """Return the configuration to run with: an agent stored under a higher bound runs with that of today."""
        if config.max_infer_iters <= self.infer_iters:
            return config
        return config.model_copy(update={"max_infer_iters": self.infer_iters})
