"""A sweep over doubles of the store: how many turns it reconciles at once, its first shard, and its report.

Covers: services/cleanup/sweeping, services/turns/recovery, store/layout/keys, store/sessions/turns
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.support.engine.harness import PATIENCE_S, FakeClock
from turnstone.domain.errors import StoreUnavailable
from turnstone.domain.refs import TurnRef
from turnstone.domain.turns.turns import TurnStatus
from turnstone.ports.records import Key, KeyPage
from turnstone.services.cleanup.sweeping import BATCH, MAX_PARALLEL_TURNS, SHIFT_S, Sweeper, Swept
from turnstone.services.turns.recovery import Outlook
from turnstone.store.layout.keys import OPEN_SHARDS, open_shards, turn_key_of
from turnstone.store.sessions.turns import TurnStore

LONG = timedelta(seconds=600)


def refs(count: int) -> list[TurnRef]:
    return [TurnRef(tenant="t", agent_id="a", session_id="s", turn_id=f"{number:04}") for number in range(count)]


class OpenTurns:
    """The turns that are open, and where each sweep began."""

    def __init__(self, found: list[TurnRef]) -> None:
        self._found = found
        self.begun: list[int] = []

    def each_open(self, first_shard: int = 0) -> Iterator[TurnRef]:
        self.begun.append(first_shard)
        return iter(self._found)


class SmallPages:
    """An open index that answers with two keys at a time, whatever the limit, and lists the shards that were read."""

    def __init__(self, keys: list[Key]) -> None:
        self._keys = keys
        self.shards: list[str] = []

    def open_keys(self, shard: str, limit: int, after: Key | None = None) -> KeyPage:
        self.shards.append(shard)
        assert len(self.shards) < 100, "the same page again and again"
        begin = self._keys.index(after) + 1 if after else 0
        page = tuple(self._keys[begin : begin + 2])
        return KeyPage(page, page[-1] if begin + 2 < len(self._keys) else None)


def sweep(found: list[TurnRef], reconcile: Any, clock: FakeClock | None = None) -> Swept:
    clock = clock or FakeClock()
    turns: Any = OpenTurns(found)
    return Sweeper(turns, reconcile, clock).sweep(clock.now() + LONG)


def test_turns_are_reconciled_in_parallel_up_to_the_limit() -> None:
    together = threading.Barrier(MAX_PARALLEL_TURNS)
    lock = threading.Lock()
    at_work, most = 0, 0

    def reconcile(_: TurnRef) -> Outlook:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        together.wait(PATIENCE_S)
        with lock:
            at_work -= 1
        return Outlook(None, None)

    assert sweep(refs(MAX_PARALLEL_TURNS * 5), reconcile) == Swept(
        seen=MAX_PARALLEL_TURNS * 5, ended=MAX_PARALLEL_TURNS * 5
    )
    assert most == MAX_PARALLEL_TURNS


def test_a_sweep_reports_the_outcome_of_each_turn() -> None:
    ended, waiting, taken, broken, torn = refs(5)
    clock = FakeClock()
    run: Any = object()

    def reconcile(ref: TurnRef) -> Outlook:
        if ref == broken:
            raise StoreUnavailable("not now")
        if ref == torn:
            raise ValueError("a record of an unreadable form")
        return {
            ended: Outlook(TurnStatus.EXPIRED, None),
            waiting: Outlook(TurnStatus.AWAITING_INPUT, clock.now()),
            taken: Outlook(TurnStatus.IN_PROGRESS, clock.now(), run),
        }[ref]

    for found in ([ended, waiting, taken, broken, torn], [torn, broken, taken, waiting, ended]):
        assert sweep(found, reconcile, clock) == Swept(seen=3, ended=1, taken_over=(taken,), failed=2)


def test_turns_after_the_deadline_are_not_reconciled() -> None:
    clock = FakeClock()
    reconciled: list[TurnRef] = []

    def reconcile(ref: TurnRef) -> Outlook:
        reconciled.append(ref)
        clock.advance(LONG.total_seconds())
        return Outlook(None, None)

    found = sweep(refs(BATCH * 2), reconcile, clock)
    assert 1 <= len(reconciled) <= MAX_PARALLEL_TURNS
    assert found == Swept(seen=len(reconciled), ended=len(reconciled), is_whole=False)


@pytest.mark.parametrize("seconds", [0, SHIFT_S - 1, SHIFT_S, 3 * SHIFT_S])
def test_where_a_sweep_begins_moves_on_with_time(seconds: int) -> None:
    turns: Any = OpenTurns([])
    clock = FakeClock()
    sweeper = Sweeper(turns, lambda _: Outlook(None, None), clock)
    sweeper.sweep(clock.now() + LONG)
    clock.advance(seconds)
    sweeper.sweep(clock.now() + LONG)
    assert turns.begun[1] - turns.begun[0] == seconds // SHIFT_S


@pytest.mark.parametrize("first", [0, 3, OPEN_SHARDS, OPEN_SHARDS + 5])
def test_every_page_of_every_part_of_the_index_is_read_once(first: int) -> None:
    found = refs(5)
    index: Any = SmallPages([turn_key_of(ref) for ref in found])
    assert list(TurnStore(index).each_open(first)) == found * OPEN_SHARDS
    assert list(dict.fromkeys(index.shards)) == [open_shards()[(first + n) % OPEN_SHARDS] for n in range(OPEN_SHARDS)]
    assert len(index.shards) == 3 * OPEN_SHARDS


def test_a_key_that_names_no_turn_hides_no_other() -> None:
    found = refs(3)
    index: Any = SmallPages([Key("nonsense", "#"), *(turn_key_of(ref) for ref in found), Key("t|s:a:b:c", "turn:x")])
    assert TurnStore(index).open_turns() == found * OPEN_SHARDS
