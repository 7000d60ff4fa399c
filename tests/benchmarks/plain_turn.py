"""What a plain turn costs at the database, counted under every length of history."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

from tests.benchmarks.counted_store import Cost, CountedStore
from tests.benchmarks.histories import BEGAN_AT, TURN_TAKES, Past, answer, question
from tests.fakes.scripted import ScriptedInference
from turnstone.adapters.files import FileBlobStore
from turnstone.adapters.local_supervisor import LocalSupervisor
from turnstone.adapters.sqlite import SqliteRangeStore
from turnstone.adapters.tools.builtin import BuiltinTools
from turnstone.bootstrap import Ports, build_core
from turnstone.config import Settings
from turnstone.domain.attempts import Attempt
from turnstone.domain.events import TurnCompleted
from turnstone.domain.ids import milliseconds, order_key, uuid7
from turnstone.domain.messages import UserMessage
from turnstone.domain.sessions import SessionRef
from turnstone.domain.turns import NewTurn
from turnstone.store.oversize import OversizeStore

LENGTHS = (0, 100, 1_000, 10_000)
BUDGETS = (4_000, 32_000)
# More than fill a segment, so that the dearest turn is among them: the one that completes a segment.
TURNS_COUNTED = 6
LONGER_THAN_ANY_HISTORY = timedelta(days=1)


@dataclass
class SteadyClock:
    """A clock that makes the same times in every run; each look takes a millisecond."""

    at: datetime

    def now(self) -> datetime:
        self.at += timedelta(milliseconds=1)
        return self.at


@dataclass(frozen=True)
class SeededIds:
    """Ids that are the same in every run."""

    clock: SteadyClock
    random: Random

    def new_id(self) -> str:
        return uuid7(milliseconds(self.clock.now()), self.random.randbytes(10))

    def order_key(self, at: datetime, previous: str | None) -> str:
        return order_key(at, previous, self.random.randbytes(10))


@dataclass(frozen=True, slots=True)
class Counted:
    """The costs of several turns, one after the other, after so many others, under a budget of context tokens."""

    turns_before: int
    budget_tokens: int
    costs: tuple[Cost, ...]

    @property
    def most(self) -> Cost:
        """Return the most of each that any of the turns cost."""
        return Cost(
            calls=max(cost.calls for cost in self.costs),
            round_trips=max(cost.round_trips for cost in self.costs),
            read_units=max(cost.read_units for cost in self.costs),
            write_units=max(cost.write_units for cost in self.costs),
        )


def count_plain_turns(folder: Path, lengths: Sequence[int] = LENGTHS) -> list[Counted]:
    """Return what plain turns cost after each length of history, under each budget."""
    with _counted_store(folder) as (counted, store):
        past = Past(store, Random(5))
        agent_id = past.agent("scripted")
        refs = {length: past.session(agent_id, length) for length in lengths}
        found = []
        for budget in BUDGETS:
            for length in lengths:
                # The turns counted under the other budget are history too: too few to matter, except to none at all.
                ref = refs[length] if length else past.session(agent_id, 0)
                counted.taken()
                found.append(Counted(length, budget, _costs(store, counted, ref, budget)))
        return found


def _costs(store: OversizeStore, counted: CountedStore, ref: SessionRef, budget_tokens: int) -> tuple[Cost, ...]:
    clock = SteadyClock(BEGAN_AT + LONGER_THAN_ANY_HISTORY)
    ports = Ports(
        store=store,
        inference=ScriptedInference([answer(number) for number in range(TURNS_COUNTED)]),
        tools=BuiltinTools(clock),
        supervisor=LocalSupervisor(clock),
        clock=clock,
        ids=SeededIds(clock, Random(budget_tokens)),
    )
    core = build_core(ports, Settings(context_tokens=budget_tokens))
    try:
        costs = []
        for number in range(TURNS_COUNTED):
            new = NewTurn(messages=(UserMessage(content=question(number)),))
            events = core.application.turns.start(ref, new, Attempt(fingerprint=f"{number:032}")).wait()
            assert [event for event in events if isinstance(event, TurnCompleted)], "the turn has no answer"
            costs.append(counted.taken())
        return tuple(costs)
    finally:
        core.executor.wait(timeout_s=TURN_TAKES.total_seconds())
        core.leases.close()


@contextmanager
def _counted_store(folder: Path) -> Iterator[tuple[CountedStore, OversizeStore]]:
    sqlite = SqliteRangeStore(folder / "turnstone.db")
    try:
        counted = CountedStore(sqlite)
        yield counted, OversizeStore(counted, FileBlobStore(folder / "blobs"))
    finally:
        sqlite.close()
