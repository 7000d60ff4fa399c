"""The cost of messages to an agent at DynamoDB: the same after any number of messages.

Covers: services/letta/messages, services/turns/turns, store/sessions/turns
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.letta_counted import bills_of_messages
from tests.benchmarks.operations_counted import DEFAULT_BUDGET, SMALL_BUDGET
from tests.support.cases import rest_at_night

# the agent and its blocks; the session, its log and the tools; the turn's begin, its end
ROUND_TRIPS = (("BatchGetItem",), ("BatchGetItem", "Query"), *[("TransactWriteItems",)] * 2)
MOST_READ_UNITS = {SMALL_BUDGET: 8, DEFAULT_BUDGET: 26}
MOST_WRITE_UNITS = 40
UNFILLED_UNITS = 5  # fifty turns do not fill the context of the default budget


@pytest.mark.parametrize("budget", [SMALL_BUDGET, DEFAULT_BUDGET])
@pytest.mark.parametrize("many", rest_at_night((500, 5_000), always=(500,)))
def test_messages_cost_the_same_after_any_number_of_messages(tmp_path: Path, many: int, budget: int) -> None:
    """Turns, each of a question and an answer."""
    bills = bills_of_messages(tmp_path, (50, many), budget)
    assert {tuple(map(tuple, bill.names)) for of in bills.values() for bill in of} == {ROUND_TRIPS}
    most = max(bill.read_units for bill in bills[many])
    assert most <= MOST_READ_UNITS[budget]
    assert most - min(bill.read_units for of in bills.values() for bill in of) <= UNFILLED_UNITS
    assert [bill.write_units for bill in bills[50]] == [bill.write_units for bill in bills[many]]
    assert max(bill.write_units for bill in bills[many]) <= MOST_WRITE_UNITS
