"""The cost of every operation at DynamoDB, counted after every length of history and under every budget."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.benchmarks.capacity import size_of_record
from tests.benchmarks.counted_store import Bill, CountedStore
from tests.benchmarks.histories import Past
from tests.benchmarks.workload import Measure, Workload
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.domain.refs import SessionRef
from turnstone.ports.storage import RangeStore
from turnstone.store.layout.keys import all_turns
from turnstone.store.layout.oversize import OversizeStore
from turnstone.store.layout.ranges import all_records

SMALL_BUDGET, DEFAULT_BUDGET = 4_000, 32_000
BUDGETS = (SMALL_BUDGET, DEFAULT_BUDGET)
LENGTHS = (0, 100, 1_000, 10_000)
# More than fill a segment, so that the dearest turn is among them: the one that completes a segment.
TURNS_COUNTED = 6


@dataclass(frozen=True, slots=True)
class Case:
    """An operation of a session with so many turns, under a budget of context tokens."""

    operation: str
    turns_before: int
    budget_tokens: int


@dataclass(frozen=True, slots=True)
class Counts:
    """The bills of each operation, one for each run.

    Attributes:
        turn_sizes: the bytes of each turn's item, by the length of the history.
    """

    bills: dict[Case, tuple[Bill, ...]]
    turn_sizes: dict[int, list[int]]


def count_operations(
    folder: Path, lengths: Sequence[int] = LENGTHS, budgets: Sequence[int] = BUDGETS, times: int = TURNS_COUNTED
) -> Counts:
    """Return the bills of each operation; each kind of turn is counted that many times in a row."""
    kept: defaultdict[Case, list[Bill]] = defaultdict(list)
    sqlite = SqliteRangeStore(folder / "turnstone.db")
    counted = CountedStore(sqlite)

    @contextmanager
    def measured(case: Case) -> Iterator[None]:
        counted.taken()
        yield
        kept[case].append(counted.taken())

    try:
        store = OversizeStore(counted, FileBlobStore(folder / "blobs"))
        sessions = do_operations(store, lengths, budgets, times, measured)
        sizes = {
            length: [size_of_record(record) for record in all_records(sqlite, all_turns(ref))][:length]
            for length, ref in sessions.items()
        }
    finally:
        sqlite.close()
    return Counts({case: tuple(bills) for case, bills in kept.items()}, sizes)


def do_operations(
    store: RangeStore,
    lengths: Sequence[int],
    budgets: Sequence[int],
    times: int,
    measured: Callable[[Case], AbstractContextManager[object]],
) -> dict[int, SessionRef]:
    """Do every operation after each length of history, turns under each budget; return the sessions with a history."""
    past = Past(store, Random(5))
    agent_id = past.agent("scripted")
    sessions = {length: past.session(agent_id, length) for length in lengths}

    def workload(length: int, budget: int) -> Workload:
        measure: Measure = lambda operation: measured(Case(operation, length, budget))  # noqa: E731 - declared with its type
        return Workload(store, budget, Random(f"{length} {budget}"), measure)

    for length, ref in sessions.items():

        def session(length: int = length, ref: SessionRef = ref) -> SessionRef:
            """Return the session; turns done in it before are too few to matter, except where there must be none."""
            return ref if length else past.session(agent_id, 0)

        reads = workload(length, DEFAULT_BUDGET)
        reads.agents_and_sessions(ref)
        reads.reads_of_a_turn(session())
        for budget in budgets:
            _do_turns(workload(length, budget), session, times)
    return sessions


def _do_turns(workload: Workload, session: Callable[[], SessionRef], times: int) -> None:
    for have_key in (False, True):
        workload.plain_turns(session(), times, have_key=have_key)
        workload.client_tool_turns(session(), times, have_key=have_key)
    workload.server_tool_turns(session(), times)
