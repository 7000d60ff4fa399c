"""The times at which a state machine checks a turn.

Covers: domain/turns/supervision, domain/turns/turns
"""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstone.domain.turns.supervision import AFTER_DEADLINE_S, AFTER_LEASE_S, GONE, NextCheck, next_check
from turnstone.domain.turns.turns import TurnStatus

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OPEN = [TurnStatus.IN_PROGRESS, TurnStatus.AWAITING_INPUT]
LONGEST_TIMEOUT_S = 99_999_999  # Source: the Amazon States Language of Step Functions
times = st.timedeltas(min_value=timedelta(days=-400), max_value=timedelta(days=400)).map(lambda passed: NOW + passed)


@given(status=st.sampled_from(OPEN), check_at=times)
def test_a_check_never_comes_before_its_time_and_comes_soon_after_it(status: TurnStatus, check_at: datetime) -> None:
    check = next_check(status, check_at, NOW)
    assert (check.status, isinstance(check.seconds, int)) == (status, True)
    assert 1 <= check.seconds <= LONGEST_TIMEOUT_S
    if check_at <= NOW:
        assert (check.next, check.seconds) == ("attend", 1)
        return
    spare_s = AFTER_DEADLINE_S if status is TurnStatus.AWAITING_INPUT else AFTER_LEASE_S
    assert check.next == ("await" if status is TurnStatus.AWAITING_INPUT else "watch")
    wakes_at = NOW + timedelta(seconds=check.seconds)
    assert timedelta(seconds=spare_s) <= wakes_at - check_at < timedelta(seconds=spare_s + 1)


@pytest.mark.parametrize("status", OPEN)
@pytest.mark.parametrize(
    ("left", "is_over"),
    [
        (timedelta(microseconds=1), False),
        (timedelta(0), True),
        (timedelta(microseconds=-1), True),
        (timedelta(seconds=-1), True),
    ],
)
def test_a_turn_is_reconciled_at_once_from_the_moment_its_time_is_over(
    status: TurnStatus, left: timedelta, is_over: bool
) -> None:
    assert (next_check(status, NOW + left, NOW).next == "attend") is is_over


def test_a_lease_and_a_deadline_are_waited_for_with_some_time_to_spare() -> None:
    in_half_a_minute = NOW + timedelta(seconds=29.2)
    lease = next_check(TurnStatus.IN_PROGRESS, in_half_a_minute, NOW)
    deadline = next_check(TurnStatus.AWAITING_INPUT, in_half_a_minute, NOW)
    assert lease == NextCheck(next="watch", seconds=35, status="in_progress")
    assert deadline == NextCheck(next="await", seconds=31, status="awaiting_input")


@pytest.mark.parametrize("status", [status for status in TurnStatus if status.is_terminal])
def test_an_ended_turn_is_not_checked_again(status: TurnStatus) -> None:
    assert next_check(status, None, NOW) == NextCheck(next="done", seconds=1, status=status.value)


@pytest.mark.parametrize("check_at", [None, NOW, NOW + timedelta(days=1)])
def test_a_deleted_turn_is_not_checked_again(check_at: datetime | None) -> None:
    assert next_check(None, check_at, NOW) == NextCheck(next="done", seconds=1, status=GONE)


@given(status=st.sampled_from([None, *TurnStatus]), check_at=st.none() | times)
def test_the_result_for_any_turn_is_readable_by_the_machine(
    status: TurnStatus | None, check_at: datetime | None
) -> None:
    """Only plain texts and whole numbers: an enumeration would not survive the way to the machine."""
    wire = next_check(status, check_at, NOW).model_dump(mode="json")
    assert list(wire) == ["next", "seconds", "status"]
    assert (type(wire["next"]), type(wire["seconds"]), type(wire["status"])) == (str, int, str)
    assert wire["next"] in ("await", "watch", "attend", "done")
