"""What a plain turn costs at the database: exactly as many calls, and no more units, after any history."""

import pytest

from tests.benchmarks.counts import CALLS, MOST_READ_UNITS, MOST_WRITE_UNITS, ROUND_TRIPS
from tests.benchmarks.plain_turn import BUDGETS, LENGTHS, TURNS_COUNTED, Counted, count_plain_turns


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> list[Counted]:
    return count_plain_turns(tmp_path_factory.mktemp("counted"))


def test_every_length_of_history_is_counted_under_every_budget(counted: list[Counted]) -> None:
    expected = {(length, budget) for length in LENGTHS for budget in BUDGETS}
    assert expected == {(plain.turns_before, plain.budget_tokens) for plain in counted}
    assert {len(plain.costs) for plain in counted} == {TURNS_COUNTED}


def test_a_plain_turn_makes_four_calls_in_three_round_trips_after_any_history(counted: list[Counted]) -> None:
    assert {(cost.calls, cost.round_trips) for plain in counted for cost in plain.costs} == {(CALLS, ROUND_TRIPS)}


def test_a_plain_turn_stays_within_its_write_units_after_any_history(counted: list[Counted]) -> None:
    for plain in counted:
        assert plain.most.write_units <= MOST_WRITE_UNITS, plain


def test_a_plain_turn_stays_within_the_read_units_of_its_budget_after_any_history(counted: list[Counted]) -> None:
    for plain in counted:
        assert plain.most.read_units <= MOST_READ_UNITS[plain.budget_tokens], plain


def test_a_plain_turn_reads_and_writes_the_same_after_1_000_turns_as_after_10_000(counted: list[Counted]) -> None:
    by_length = {(plain.turns_before, plain.budget_tokens): plain.most for plain in counted}
    for budget in BUDGETS:
        assert by_length[1_000, budget] == by_length[10_000, budget]
