"""Tokens: their sums by day and model, their cost, and the factor between counted and estimated ones.

Covers: domain/usage/prices, domain/usage/usage, domain/usage/usage_report
"""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstone.domain.errors import InvalidRequest
from turnstone.domain.usage.prices import Prices
from turnstone.domain.usage.usage import SpentToday, Tokens, TokenUsage, added, factor_of, spent_by
from turnstone.domain.usage.usage_report import MOST_DAYS, MOST_LISTED, UsageCount, UsageQuery, UsageReport

TODAY = date(2026, 5, 4)
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
ONE = Tokens(inferences=1, prompt_tokens=1_000, completion_tokens=200)
PRICES = Prices(input=2.0, output=10.0)
COUNTS = st.integers(0, 10**9)
TOKENS = st.builds(Tokens, inferences=COUNTS, prompt_tokens=COUNTS, completion_tokens=COUNTS)
BY_MODEL = st.dictionaries(st.sampled_from(["a", "b", "c"]), TOKENS)


@given(BY_MODEL, BY_MODEL)
def test_a_sum_has_the_tokens_of_both_for_each_model(first: dict[str, Tokens], second: dict[str, Tokens]) -> None:
    both = added(first, second)
    assert both.keys() == first.keys() | second.keys()
    assert sum(t.total_tokens for t in both.values()) == sum(
        t.total_tokens for one in (first, second) for t in one.values()
    )


def test_tokens_cost_by_the_million_and_the_cost_is_unknown_without_a_price() -> None:
    assert ONE.cost_usd(PRICES) == pytest.approx(0.004)
    assert ONE.cost_usd(None) is None


@pytest.mark.parametrize("stored", [10**310, 10**15 + 1, -1])
def test_a_stored_number_that_no_model_can_have_reached_is_read_as_none(stored: int) -> None:
    fields = f'{{"inferences": 2, "prompt_tokens": {stored}, "completion_tokens": 7}}'
    tokens = Tokens.model_validate_json(fields)
    assert (tokens.inferences, tokens.total_tokens, tokens.cost_usd(PRICES)) == (2, 7, pytest.approx(0.00007))
    assert TokenUsage.model_validate_json(fields).spent.total_tokens == 7


def test_sums_of_possible_numbers_are_kept_however_large() -> None:
    most = Tokens(prompt_tokens=10**15)
    assert most.plus(most).prompt_tokens == 2 * 10**15


def test_a_cost_beyond_all_numbers_is_unknown() -> None:
    count = UsageCount([TODAY])
    count.add(TODAY, "a", "s", {"m": ONE})
    dear = Prices(input=1.7e308, output=1.7e308)
    assert count.report(lambda _: dear, has_sessions=False).total.cost_usd is None


def test_a_day_begins_with_nothing_and_continues_with_its_count() -> None:
    first = spent_by(None, {"m": ONE}, NOON)
    again = spent_by(first, {"m": ONE, "n": ONE}, NOON)
    assert again == SpentToday(day=TODAY, by_model={"m": ONE.plus(ONE), "n": ONE})
    assert spent_by(again, {"m": ONE}, NOON + timedelta(days=1)) == SpentToday(
        day=TODAY + timedelta(days=1), by_model={"m": ONE}
    )
    assert spent_by(again, {}, NOON + timedelta(days=1)) == again


def test_a_clock_that_goes_back_over_midnight_loses_nothing_of_the_later_day() -> None:
    later = spent_by(None, {"m": ONE}, NOON)
    assert spent_by(later, {"m": ONE}, NOON - timedelta(days=1)) == SpentToday(day=TODAY, by_model={"m": ONE.plus(ONE)})


def test_days_are_those_of_utc() -> None:
    spent = spent_by(None, {"m": ONE}, datetime.fromisoformat("2026-05-05T01:00:00+02:00"))
    assert spent is not None
    assert spent.day == TODAY


@pytest.mark.parametrize(
    ("counted", "estimated", "factor"),
    [(1_300, 1_000, 1.3), (900, 1_000, 0.9), (10, 199, 1.1), (10, 1_000, 1.1), (5_000, 1_000, 1.1), (500, 0, 1.1)],
    ids=["more", "fewer", "too short to measure", "cached ones left out", "far off", "no estimate"],
)
def test_a_factor_comes_from_the_last_long_prompt(counted: int, estimated: int, factor: float) -> None:
    earlier = TokenUsage(prompt_tokens=1_100, estimated_prompt_tokens=1_000)
    last = TokenUsage(prompt_tokens=counted, estimated_prompt_tokens=estimated)
    assert factor_of((earlier, last), otherwise=1.0) == factor
    assert factor_of((), otherwise=1.7) == 1.7


# ---- the query


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        (None, None, [TODAY]),
        (date(2026, 5, 2), None, [date(2026, 5, 2), date(2026, 5, 3), TODAY]),
        (None, date(2026, 5, 1), [date(2026, 5, 1)]),
        (date(2026, 5, 9), None, [date(2026, 5, 9)]),
        (None, date(2026, 5, 9), [TODAY + timedelta(days=n) for n in range(6)]),
    ],
)
def test_days_that_are_not_named_are_todays(first: date | None, last: date | None, expected: list[date]) -> None:
    assert list(UsageQuery(first_day=first, last_day=last).days(TODAY)) == expected


def test_days_in_the_wrong_order_and_too_many_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="must not be after"):
        UsageQuery(first_day=TODAY, last_day=TODAY - timedelta(days=1)).days(TODAY)
    most = UsageQuery(first_day=TODAY - timedelta(days=MOST_DAYS - 1), last_day=TODAY)
    assert len(most.days(TODAY)) == MOST_DAYS
    with pytest.raises(InvalidRequest, match="at most 31 days"):
        UsageQuery(first_day=TODAY - timedelta(days=MOST_DAYS), last_day=TODAY).days(TODAY)


# ---- the report


def report(*prices: str, has_sessions: bool = False) -> UsageReport:
    count = UsageCount([TODAY, TODAY + timedelta(days=1)])
    count.add(TODAY, "a1", "s1", {"m": ONE})
    count.add(TODAY, "a2", "s2", {"m": ONE, "n": ONE})
    count.add(TODAY + timedelta(days=1), "a2", "s2", {"n": ONE})
    return count.report({name: PRICES for name in prices}.get, has_sessions=has_sessions)


def test_a_report_adds_up_by_day_model_agent_and_session() -> None:
    summary = report("m", "n", has_sessions=True)
    assert (summary.first_day, summary.last_day, summary.agents, summary.sessions) == (
        TODAY,
        TODAY + timedelta(days=1),
        2,
        2,
    )
    assert (summary.total.inferences, summary.total.total_tokens) == (4, 4_800)
    assert [(one.day.day, one.inferences) for one in summary.by_day] == [(4, 3), (5, 1)]
    assert [(one.model_id, one.inferences) for one in summary.by_model] == [("m", 2), ("n", 2)]
    assert [(one.agent_id, one.inferences) for one in summary.by_agent] == [("a2", 3), ("a1", 1)]
    assert [(one.session_id, one.inferences) for one in summary.by_session] == [("s2", 3), ("s1", 1)]
    assert summary.total.cost_usd == pytest.approx(0.016)


def test_sessions_are_listed_only_in_the_report_of_one_agent() -> None:
    assert report().by_session == ()
    assert report().sessions == 2


def test_a_sum_with_a_model_without_a_price_has_no_cost() -> None:
    summary = report("m")
    assert summary.total.cost_usd is None
    assert [one.cost_usd for one in summary.by_model] == [pytest.approx(0.008), None]
    assert [one.cost_usd for one in summary.by_agent] == [None, pytest.approx(0.004)]


def test_an_empty_count_costs_nothing() -> None:
    summary = UsageCount([TODAY]).report(lambda _: None, has_sessions=True)
    assert (summary.total.total_tokens, summary.total.cost_usd, summary.agents, summary.by_session) == (0, 0.0, 0, ())
    assert [one.day for one in summary.by_day] == [TODAY]


def test_of_many_agents_those_are_listed_that_spent_most() -> None:
    count = UsageCount([TODAY])
    for number in range(MOST_LISTED + 1):
        count.add(TODAY, f"a{number}", f"s{number}", {"m": Tokens(inferences=1, prompt_tokens=number)})
    summary = count.report(lambda _: None, has_sessions=False)
    assert (summary.agents, len(summary.by_agent), summary.by_agent[0].agent_id) == (
        MOST_LISTED + 1,
        MOST_LISTED,
        "a1000",
    )
    assert "a0" not in [one.agent_id for one in summary.by_agent]
