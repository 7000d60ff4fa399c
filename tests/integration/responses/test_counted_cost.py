"""The cost of responses at DynamoDB: the same at the end of a chain of any length, and after any number of forks.

Covers: services/responses/responses, services/responses/forking, store/responses/responses, store/sessions/turns
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.benchmarks.counted_store import Bill
from tests.benchmarks.operations_counted import DEFAULT_BUDGET, SMALL_BUDGET
from tests.benchmarks.responses_counted import bills_along_chains, bills_along_forks
from tests.support.cases import rest_at_night

LENGTHS = (10, 100, 1_000)
# of a plain turn, and of the two records of the response
MOST_WRITE_UNITS = 24
# a fork copies as much of the log as the context holds, and a record finds it when its request is sent again
MOST_WRITE_UNITS_OF_A_FORK = 46
MOST_READ_UNITS = {SMALL_BUDGET: 10, DEFAULT_BUDGET: 40}


def dearest(bills: Sequence[Bill]) -> tuple[int, int, int]:
    """Return the most calls, read units and write units."""
    return (
        max(bill.calls for bill in bills),
        max(bill.read_units for bill in bills),
        max(bill.write_units for bill in bills),
    )


@pytest.mark.parametrize("budget", [SMALL_BUDGET, DEFAULT_BUDGET])
def test_the_end_of_a_chain_costs_the_same_after_any_length(tmp_path: Path, budget: int) -> None:
    bills = bills_along_chains(tmp_path, LENGTHS, budget)
    assert {len(bill.round_trips) for of in bills.values() for bill in of} == {3}
    calls, read_units, write_units = dearest(bills[1_000])
    assert calls == 4
    assert read_units <= MOST_READ_UNITS[budget]
    assert write_units <= MOST_WRITE_UNITS
    assert dearest(bills[100]) == (calls, read_units, write_units)
    assert dearest(bills[10])[0] == calls


@pytest.mark.parametrize("forks", rest_at_night((40, 1_000), always=(40,)))
def test_a_fork_costs_the_same_after_any_number_of_forks(tmp_path: Path, forks: int) -> None:
    bills = bills_along_forks(tmp_path, forks, SMALL_BUDGET)
    assert {(bill.calls, len(bill.round_trips)) for bill in bills} == {(6, 4)}
    _, read_units, write_units = dearest(bills[10:])
    assert read_units <= MOST_READ_UNITS[SMALL_BUDGET]
    assert write_units <= MOST_WRITE_UNITS_OF_A_FORK
