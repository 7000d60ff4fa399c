"""The messages of a turn that later turns see, whichever way it ended, and the log that holds them.

Covers: engine/steps, services/turns/transitions, domain/sessions/context
"""

import json
from collections.abc import Sequence
from datetime import timedelta
from itertools import accumulate, takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.models.scripted import ScriptedInference, ScriptedReply, call, calls
from tests.support.engine.turn_loop import CLIENT_CALL, CONFIG, NOW, PRICE, STOCK, UNPARSABLE, Engine, new_turn
from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import ModelFailed
from turnstone.domain.messages.messages import MESSAGES, CompletionMessage, Message, ToolResponseMessage, UserMessage
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.sessions.call_pairs import answered
from turnstone.domain.sessions.context import (
    INLINE_BYTES,
    SEALED_TOKENS,
    Entry,
    Segment,
    current_messages,
    ended_messages,
    entry_of,
    newest_within,
    rebuilt,
    segments_within,
    tokens_of,
    unanswered_calls,
)
from turnstone.domain.sessions.sessions import Session
from turnstone.domain.tools.tools import ToolCall, call_from_json
from turnstone.domain.turns.turns import TurnState, TurnStatus
from turnstone.domain.values.content import Content, Image, ImageItem, TextItem
from turnstone.engine.steps import AwaitClientTools
from turnstone.services.turns.transitions import ended_unanswered, paused

PROPERTY = settings(deadline=None, max_examples=60)
SESSION = Session(agent_id="a1", session_id="s1", session_name="s", started_at=NOW, order="s1")
REASON = "Not executed: a test."
LIMIT = "Not executed: the turn reached its limit of inference iterations."
EXPIRED = "Not executed: no answer came before the deadline."
CANCELLED = "Not executed: the user went on with something else."
FAILED = "Not executed: the turn failed before this call could run."
CUT_OFF = "Not executed: the answer was cut off by the token limit."


def completed(*script: object, config: AgentConfig = CONFIG) -> TurnState:
    ending = Engine(*script, config=config).run(new_turn())
    return ending.state.completed(ending.output, NOW)


def waiting(*requested: ToolCall) -> TurnState:
    ending = Engine(calls(*requested)).run(new_turn())
    assert isinstance(ending, AwaitClientTools)
    return paused(SESSION, ending.state, ending.output, NOW + timedelta(hours=1)).turns[0]


def answers_seen_after(ended: TurnState) -> list[tuple[str, Content]]:
    """Return the tool answers that the next turn shows to a model which refuses a call without one."""
    engine = Engine("fine", history=ended_messages(ended))
    engine.run(new_turn("go on", "t2"))
    (request,) = engine.inference.requests
    return [(m.call_id, m.content) for m in request.messages if isinstance(m, ToolResponseMessage)]


def test_a_model_refuses_the_turn_as_it_was_left() -> None:
    left = waiting(CLIENT_CALL)
    with pytest.raises(ModelFailed, match="c3"):
        next(ScriptedInference(["fine"]).stream(InferenceRequest("m", current_messages(left))))


def test_calls_beyond_the_iteration_limit_are_answered_as_not_executed() -> None:
    ended = completed(PRICE, calls(STOCK, CLIENT_CALL), config=CONFIG.model_copy(update={"max_infer_iters": 2}))
    assert answers_seen_after(ended) == [("c1", "3 coins"), ("c2", LIMIT), ("c3", LIMIT)]


def test_calls_of_an_expired_turn_are_answered_as_not_executed() -> None:
    assert answers_seen_after(ended_unanswered(waiting(CLIENT_CALL), TurnStatus.EXPIRED, NOW)) == [("c3", EXPIRED)]


def test_calls_of_a_superseded_turn_are_answered_as_not_executed() -> None:
    assert answers_seen_after(ended_unanswered(waiting(CLIENT_CALL), TurnStatus.CANCELLED, NOW)) == [("c3", CANCELLED)]


def test_calls_of_a_failed_turn_are_answered_as_not_executed() -> None:
    engine = Engine(calls(PRICE, STOCK))
    engine.move(new_turn())
    assert answers_seen_after(ended_unanswered(engine.stored, TurnStatus.FAILED, NOW)) == [
        ("c1", FAILED),
        ("c2", FAILED),
    ]


def test_calls_of_a_truncated_answer_are_answered_as_not_executed() -> None:
    ended = completed(ScriptedReply(("so",), calls=(PRICE, UNPARSABLE), is_cut_off=True))
    assert answers_seen_after(ended) == [("c1", CUT_OFF), ("c6", CUT_OFF)]


@pytest.mark.parametrize(
    ("status", "reason"),
    [(TurnStatus.EXPIRED, EXPIRED), (TurnStatus.CANCELLED, CANCELLED), (TurnStatus.FAILED, FAILED)],
)
def test_of_mixed_calls_only_the_unanswered_are_answered_as_not_executed(status: TurnStatus, reason: str) -> None:
    ended = ended_unanswered(waiting(CLIENT_CALL, PRICE), status, NOW)
    assert [("c1", "3 coins"), ("c3", reason)] == answers_seen_after(ended)


def test_a_turn_whose_calls_are_all_answered_is_unchanged() -> None:
    ended = completed(calls(PRICE, STOCK), "done")
    assert current_messages(ended) == ended_messages(ended)
    assert answers_seen_after(ended) == [("c1", "3 coins"), ("c2", "sold out")]


def test_an_empty_inference_is_left_out() -> None:
    assert (UserMessage(content="hello"),) == ended_messages(completed(""))


def test_unanswered_calls_are_those_of_the_last_inference_that_no_step_answers() -> None:
    engine = Engine(calls(PRICE, STOCK, CLIENT_CALL), PRICE)
    assert unanswered_calls(new_turn()) == ()
    inferred = engine.move(new_turn())
    assert unanswered_calls(inferred.state) == (PRICE, STOCK, CLIENT_CALL)
    ran = engine.move(inferred.state)
    assert isinstance(ran, AwaitClientTools)
    assert unanswered_calls(ran.state) == (CLIENT_CALL,)


IDS = st.sampled_from(["c1", "c2", "c3"])
CALL_LISTS = st.lists(IDS, max_size=3, unique=True).map(lambda ids: tuple(call("f", call_id) for call_id in ids))
ASSISTANTS = st.builds(
    CompletionMessage, content=st.just("a"), stop_reason=st.just("end_of_turn"), tool_calls=CALL_LISTS
)
ANSWERS = st.builds(ToolResponseMessage, call_id=IDS, content=st.just("found"))
MESSAGE_LISTS = st.lists(st.one_of(ASSISTANTS, ANSWERS, st.just(UserMessage(content="u"))), max_size=10)


def answers_behind(messages: Sequence[Message], index: int) -> list[str]:
    behind = takewhile(lambda message: isinstance(message, ToolResponseMessage), messages[index + 1 :])
    return [message.call_id for message in behind]


@settings(PROPERTY)
@given(MESSAGE_LISTS)
def test_every_call_is_answered_directly_behind_it(messages: list[Message]) -> None:
    complete = answered(messages, REASON)
    for index, message in enumerate(complete):
        if isinstance(message, CompletionMessage):
            assert {pending.call_id for pending in message.tool_calls} <= set(answers_behind(complete, index))


@settings(PROPERTY)
@given(MESSAGE_LISTS)
def test_answering_loses_nothing_keeps_the_order_and_answers_open_calls_only(messages: list[Message]) -> None:
    complete = answered(messages, REASON)
    assert messages == [message for message in complete if message.content != REASON]
    open_calls = [
        pending.call_id
        for index, message in enumerate(messages)
        if isinstance(message, CompletionMessage)
        for pending in message.tool_calls
        if pending.call_id not in answers_behind(messages, index)
    ]
    assert open_calls == [message.call_id for message in complete if message.content == REASON]
    assert complete == answered(complete, "again")


@settings(PROPERTY)
@given(MESSAGE_LISTS, st.integers(-1, 80))
def test_the_newest_within_a_budget_are_the_longest_tail_that_begins_no_answer(
    messages: list[Message], budget_tokens: int
) -> None:
    tails = [messages[start:] for start in range(len(messages) + 1)]
    whole = [tail for tail in tails if not tail or not isinstance(tail[0], ToolResponseMessage)]
    assert tuple(next(t for t in whole if not t or tokens_of(t) <= budget_tokens)) == newest_within(
        messages, budget_tokens
    )


def log_of(sizes: list[int]) -> list[Segment]:
    """Return the log of turns of these sizes, appended one after the other."""
    log = {0: Segment(number=0)}
    for order, tokens in enumerate(sizes):
        last = log[max(log)].appended(Entry(order=str(order), tokens=tokens))
        log[last.number] = last
    return list(log.values())


SIZES = st.lists(st.one_of(st.integers(0, 40), st.integers(900, 1_100), st.integers(0, 5_000)), max_size=40)


@settings(PROPERTY)
@given(SIZES)
def test_a_segment_is_sealed_once_full_and_the_log_keeps_every_turn_in_order(sizes: list[int]) -> None:
    log = log_of(sizes)
    assert list(range(len(log))) == [segment.number for segment in log]
    held = [[entry.tokens for entry in segment.entries] for segment in log]
    assert sizes == [tokens for segment in held for tokens in segment]
    assert all(sum(segment) >= SEALED_TOKENS for segment in held[:-1])
    assert all(sum(segment[:-1]) < SEALED_TOKENS for segment in held)


@settings(PROPERTY)
@given(SIZES, st.integers(-10, 20_000))
def test_the_newest_segments_hold_all_that_fits_a_budget(sizes: list[int], budget_tokens: int) -> None:
    newest = log_of(sizes)[-segments_within(budget_tokens) :]
    fitting = [total for total in accumulate(reversed(sizes)) if total <= budget_tokens]
    assert len(fitting) <= sum(len(segment.entries) for segment in newest)


def test_a_budget_of_nothing_still_reads_the_open_segment() -> None:
    assert [segments_within(budget) for budget in (-5, 0, 1, SEALED_TOKENS, SEALED_TOKENS + 1)] == [1, 1, 2, 2, 3]


@settings(PROPERTY, max_examples=25)
@given(st.lists(st.sampled_from([0, 100, 2_000, 3_900, 9_000]), max_size=12))
def test_the_log_rebuilt_from_the_turns_is_the_log_as_it_grew(lengths: list[int]) -> None:
    ended = [
        new_turn("x" * length, f"t{i}").model_copy(update={"status": TurnStatus.COMPLETED})
        for i, length in enumerate(lengths)
    ]
    log = {0: Segment(number=0)}
    for state in ended:
        last = log[max(log)].appended(entry_of(state))
        log[last.number] = last
    assert tuple(log.values()) == rebuilt(ended)


@pytest.mark.parametrize(("excess_bytes", "is_inline"), [(0, True), (1, False)])
def test_a_turn_is_kept_in_the_log_itself_up_to_four_kilobytes(excess_bytes: int, is_inline: bool) -> None:
    frame = len(MESSAGES.dump_json((UserMessage(content=""),)))
    ended = new_turn("x" * (INLINE_BYTES - frame + excess_bytes)).model_copy(update={"status": TurnStatus.COMPLETED})
    messages = ended_messages(ended)
    expected = Entry(order="t1", tokens=tokens_of(messages), messages=messages if is_inline else None)
    assert expected == entry_of(ended)


def test_an_entry_holds_the_messages_that_later_turns_see() -> None:
    ended = ended_unanswered(waiting(CLIENT_CALL), TurnStatus.EXPIRED, NOW)
    messages = ended_messages(ended)
    assert Entry(order="t1", tokens=tokens_of(messages), messages=messages) == entry_of(ended)


IMAGE = ImageItem(image=Image(data="A" * 100_000))


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        ("", 0),
        ("four", 1),
        ("fours", 2),
        ("日本語", 3),
        ("😀😀", 2),
        (IMAGE, 1_000),
        ((TextItem(text="four"), IMAGE), 1_001),
    ],
    ids=["nothing", "four bytes", "five bytes", "Japanese", "emoji", "an image", "text and image"],
)
def test_a_token_is_four_bytes_of_text_and_an_image_is_a_thousand(content: Content, tokens: int) -> None:
    message_tokens = tokens_of([UserMessage(content="")])
    assert message_tokens + tokens == tokens_of([UserMessage(content=content)])
    assert message_tokens + tokens == tokens_of([UserMessage(content="", context=content)])


def test_calls_take_tokens_too() -> None:
    message = CompletionMessage(content="", stop_reason="end_of_turn")
    message_with_call = call("f" * 400, "c1", text="x" * 4_000)
    assert tokens_of([message]) + 1_100 <= tokens_of([message.model_copy(update={"tool_calls": (message_with_call,)})])


def test_arguments_are_counted_in_bytes_as_text_is() -> None:
    written = json.dumps({"text": "日本語" * 1_000}, ensure_ascii=False)
    message_with_text = CompletionMessage(content=written, stop_reason="end_of_turn")
    called = message_with_text.model_copy(update={"content": "", "tool_calls": (call_from_json("c1", "f", written),)})
    assert tokens_of([message_with_text]) <= tokens_of([called])
