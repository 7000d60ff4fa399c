"""The budget of a model's context window, and the turns that a summary replaces.

Covers: services/turns/summarizing, domain/sessions/context_budget
"""

import pytest

from tests.support.engine.turn_loop import CONFIG
from turnstone.domain.agents.agents import SamplingParams
from turnstone.domain.models.routing import ModelRoute
from turnstone.domain.sessions.context import Entry, Segment, summary_tokens
from turnstone.domain.sessions.context_budget import budget_tokens, is_whole_within
from turnstone.domain.turns.turns import Summary
from turnstone.domain.usage.usage import TokenUsage
from turnstone.services.turns.summarizing import to_be_dropped


@pytest.mark.parametrize(
    ("window", "max_tokens", "factor", "expected"),
    [
        (None, 0, 1.0, 10_000),
        (None, 5_000, 1.25, 8_000),
        (8_000, 0, 1.0, 6_000),
        (8_000, 1_000, 1.0, 7_000),
        (8_000, 8_000, 1.0, 4_000),
        (8_000, 1_000, 2.0, 3_500),
        (100_000, 0, 0.5, 150_000),
    ],
    ids=["unknown", "unknown but measured", "a quarter", "as requested", "half at most", "measured", "wide"],
)
def test_the_answer_has_its_share_of_the_window(
    window: int | None, max_tokens: int, factor: float, expected: int
) -> None:
    config = CONFIG.model_copy(update={"sampling_params": SamplingParams(max_tokens=max_tokens)})
    assert budget_tokens(ModelRoute("m", (), context_tokens=window), config, 10_000, factor) == expected


def entries(*tokens: int) -> list[Entry]:
    return [Entry(order=f"t{number}", tokens=each) for number, each in enumerate(tokens)]


NEWEST = Entry(order="t9", tokens=100)
EARLIER = Summary(text="x" * 384, first_order="a", last_order="b", usage=TokenUsage(), model="m")


def dropped(room: int, *tokens: int, earlier: Summary | None = None) -> list[str]:
    return [entry.order for entry in to_be_dropped(earlier, entries(*tokens), NEWEST, room)]


def test_nothing_is_dropped_while_another_turn_like_the_newest_fits() -> None:
    assert dropped(500, 100, 100, 100) == []
    assert dropped(499, 100, 100, 100) == ["t0", "t1"]


def test_an_earlier_summary_takes_room_too() -> None:
    assert dropped(500 + summary_tokens(EARLIER), 100, 100, 100, earlier=EARLIER) == []
    assert dropped(499 + summary_tokens(EARLIER), 100, 100, 100, earlier=EARLIER) != []


def test_turns_that_stay_take_half_the_room_and_the_oldest_are_dropped() -> None:
    assert dropped(400, 150, 50, 50, 50) == ["t0", "t1"]
    assert dropped(400, 50, 50, 50, 150) == ["t0", "t1", "t2", "t3"]


def test_the_newest_turn_stays_whatever_it_takes() -> None:
    assert dropped(10) == []
    assert dropped(10, 5) == ["t0"]


def test_a_history_is_whole_from_its_first_segment_or_a_summary_within_the_budget() -> None:
    turns = tuple(entries(60, 40))
    usage = TokenUsage(prompt_tokens=1, completion_tokens=1, total_tokens=2)
    summary = Summary(text="Much.", first_order="a", last_order="b", usage=usage, model="m")
    tokens = 100 + summary_tokens(summary)
    assert is_whole_within((), 0)
    assert is_whole_within((), -10)
    assert is_whole_within((Segment(number=0, entries=turns),), 100)
    assert not is_whole_within((Segment(number=0, entries=turns),), 99)
    assert not is_whole_within((Segment(number=3, entries=turns),), 100), "earlier segments were not read"
    assert is_whole_within((Segment(number=3, summary=summary), Segment(number=4, entries=turns)), tokens)
    assert not is_whole_within((Segment(number=3, summary=summary), Segment(number=4, entries=turns)), tokens - 1)
