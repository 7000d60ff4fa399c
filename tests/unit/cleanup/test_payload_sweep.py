"""PayloadSweep: a named payload is never removed, an unnamed one only after the grace, and a run is bounded.

Covers: store/cleanup/payload_sweep
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from turnstone.domain.errors import StoreUnavailable
from turnstone.store.cleanup import payload_sweep
from turnstone.store.cleanup.payload_sweep import PayloadSweep

GRACE_S = 60.0


class Stored:
    """Records and payloads in memory, with a clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.records: list[str | None] = []
        self.stored_at_s: dict[str, float] = {}
        self.reads = 0
        self.is_unavailable = False

    def put(self, *names: str) -> None:
        self.stored_at_s |= dict.fromkeys(names, self.now_s)

    def pointers(self, after: int, limit: int) -> tuple[list[bytes], int | None]:
        self.reads += 1
        if self.is_unavailable:
            raise StoreUnavailable("no disk")
        some = [name for name in self.records[after : after + limit] if name is not None]
        following = after + limit if after + limit < len(self.records) else None
        return [b'{"name": "%s", "sha256": ""}' % name.encode() for name in some], following

    def older_than(self, age_s: float) -> Iterator[str]:
        yield from sorted(name for name, at_s in self.stored_at_s.items() if at_s <= self.now_s - age_s)

    def delete(self, name: str) -> None:
        del self.stored_at_s[name]


@pytest.fixture
def stored() -> Stored:
    return Stored()


@pytest.fixture
def sweep(stored: Stored) -> PayloadSweep:
    return PayloadSweep(stored, stored, GRACE_S, lambda: stored.now_s)


def test_an_unnamed_payload_is_removed_one_grace_after_it_was_first_found(stored: Stored, sweep: PayloadSweep) -> None:
    stored.put("named", "left")
    stored.records = ["named"]
    removed = []
    for _ in range(7):
        removed.append(sweep.run())
        stored.now_s += GRACE_S / 3
    assert removed == [0, 0, 0, 0, 0, 0, 1]
    assert list(stored.stored_at_s) == ["named"]


def test_a_payload_whose_record_comes_late_stays(stored: Stored, sweep: PayloadSweep) -> None:
    stored.put("late")
    stored.now_s += GRACE_S
    assert sweep.run() == 0  # it is unnamed for the first time
    stored.records = ["late"]
    stored.now_s += GRACE_S
    assert sweep.run() == 0
    stored.records = []  # replaced: its grace begins again
    assert sweep.run() == 0
    stored.now_s += GRACE_S
    assert sweep.run() == 1


def test_a_record_that_a_pass_has_missed_does_not_lose_its_payload(stored: Stored, sweep: PayloadSweep) -> None:
    stored.put("moved")
    stored.now_s += 10 * GRACE_S
    assert sweep.run() == 0  # written behind the position of the pass
    stored.records = ["moved"]
    for _ in range(3):
        stored.now_s += 10 * GRACE_S
        assert sweep.run() == 0
    assert list(stored.stored_at_s) == ["moved"]


def test_a_run_does_a_bounded_part_and_the_next_continues(
    stored: Stored, sweep: PayloadSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payload_sweep, "PARTS_AT_ONCE", 4)
    monkeypatch.setattr(payload_sweep, "ROWS_AT_ONCE", 10)
    monkeypatch.setattr(payload_sweep, "PAYLOADS_AT_ONCE", 10)
    stored.put(*(f"{number:03}" for number in range(60)))
    stored.records = [f"{number:03}" for number in range(0, 60, 2)]
    stored.now_s += GRACE_S
    sweep.run()
    assert (stored.reads, len(stored.stored_at_s)) == (3, 60)
    runs = 0
    while len(stored.stored_at_s) > 30:
        stored.now_s += GRACE_S / 2
        before = len(stored.stored_at_s)
        sweep.run()
        assert before - len(stored.stored_at_s) <= 4 * 10
        runs += 1
        assert runs < 20
    assert set(stored.stored_at_s) == set(stored.records)


def test_a_pass_that_fails_removes_nothing_and_the_next_starts_over(stored: Stored, sweep: PayloadSweep) -> None:
    stored.put("left")
    stored.now_s += GRACE_S
    sweep.run()
    stored.now_s += GRACE_S
    stored.is_unavailable = True
    with pytest.raises(StoreUnavailable):
        sweep.run()
    assert list(stored.stored_at_s) == ["left"]
    stored.is_unavailable = False
    assert sweep.run() == 1
