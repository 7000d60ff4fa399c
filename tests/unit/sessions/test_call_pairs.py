"""What a model sees has an answer directly after each call and no other answer, over any log, budget and turn.

Covers: domain/sessions/call_pairs, domain/sessions/context
"""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.models.scripted import call
from turnstone.domain.messages.messages import CompletionMessage, Message, ToolResponseMessage, UserMessage
from turnstone.domain.sessions.call_pairs import NO_ANSWER, begins_with_answers, paired
from turnstone.domain.sessions.context import (
    Entry,
    first_kept,
    newest_entries,
    newest_of_turns,
    newest_within,
    tokens_of,
)

IDS = st.sampled_from(["c1", "c2", "c3"])
CALLED = st.lists(IDS, max_size=3, unique=True).map(
    lambda ids: CompletionMessage(
        content="a", stop_reason="end_of_turn", tool_calls=tuple(call("f", call_id) for call_id in ids)
    )
)
ANSWERS = st.builds(ToolResponseMessage, call_id=IDS, content=st.just("found"))
TURNS = st.lists(st.lists(st.one_of(CALLED, ANSWERS, st.just(UserMessage(content="u" * 40))), max_size=4), max_size=6)


def assert_paired(messages: Sequence[Message]) -> None:
    position = 0
    while position < len(messages):
        message = messages[position]
        assert not isinstance(message, ToolResponseMessage), "an answer without a call"
        position += 1
        open_calls = {made.call_id for made in message.tool_calls} if isinstance(message, CompletionMessage) else set()
        while open_calls:
            answer = messages[position]
            assert isinstance(answer, ToolResponseMessage), "a call without an answer"
            open_calls.remove(answer.call_id)
            position += 1


def log_of(turns: Sequence[Sequence[Message]]) -> list[Entry]:
    return [
        Entry(order=str(i), tokens=tokens_of(turn), messages=tuple(turn), continues=begins_with_answers(turn))
        for i, turn in enumerate(turns)
    ]


@settings(max_examples=300, deadline=None)
@given(TURNS, st.lists(st.one_of(ANSWERS, st.just(UserMessage(content="now"))), max_size=3), st.integers(-5, 120))
def test_within_any_budget_each_call_has_one_answer_and_each_answer_a_call(
    turns: list[list[Message]], now: list[Message], budget_tokens: int
) -> None:
    entries = log_of(turns)
    chosen, left = newest_entries(entries, budget_tokens)
    shown = [entry.messages or () for entry in chosen]
    if left < 0:
        shown = newest_of_turns(shown, sum(entry.tokens for entry in chosen) + left, is_continued=bool(now))
    seen = paired([message for turn in shown for message in turn] + now)
    assert_paired(seen)
    assert paired(seen) == seen
    assert [m for m in seen if isinstance(m, UserMessage)] == [
        m for m in [*(m for turn in shown for m in turn), *now] if isinstance(m, UserMessage)
    ]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=12), st.integers(-5, 120))
def test_a_budget_never_separates_a_turn_from_the_one_it_continues(
    sizes: list[tuple[int, bool]], budget_tokens: int
) -> None:
    entries = [Entry(order=str(i), tokens=tokens, continues=glued) for i, (tokens, glued) in enumerate(sizes)]
    chosen, left = newest_entries(entries, budget_tokens)
    assert entries[len(entries) - len(chosen) :] == chosen
    assert len(chosen) == len(entries) or not chosen or not chosen[0].continues
    assert left == budget_tokens - sum(entry.tokens for entry in chosen)
    for index in range(len(entries)):
        kept = first_kept(entries, index)
        assert kept <= index
        assert kept == 0 or not entries[kept].continues


@settings(max_examples=200, deadline=None)
@given(TURNS, st.integers(-5, 120))
def test_the_newest_of_turns_is_the_newest_of_their_messages(turns: list[list[Message]], budget_tokens: int) -> None:
    parts = newest_of_turns([tuple(turn) for turn in turns], budget_tokens)
    assert len(parts) == len(turns)
    flat = [message for turn in turns for message in turn]
    assert tuple(message for part in parts for message in part) == newest_within(flat, budget_tokens)


def test_the_calls_that_the_next_turn_answers_stay_without_any_budget() -> None:
    question, called = (
        UserMessage(content="u" * 400),
        CompletionMessage(content="", stop_reason="end_of_turn", tool_calls=(call("f", "c1"),)),
    )
    assert newest_of_turns([(question, called)], 0, is_continued=True) == [(called,)]
    seen = paired((called, UserMessage(content="u"), ToolResponseMessage(call_id="c1", content="late")))
    assert [message.role for message in seen] == ["assistant", "tool", "user"]
    assert paired((called,))[-1] == ToolResponseMessage(call_id="c1", content=NO_ANSWER)
