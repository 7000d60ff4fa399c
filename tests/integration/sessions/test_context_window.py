"""The part of a long session that a model receives: as much as its context window holds, and a summary of the rest.

Covers: services/sessions/session_context, services/turns/summarizing, engine/summary, domain/sessions/context_budget
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.models.scripted import Reply, ScriptedReply
from tests.support.engine.either_store import Make
from tests.support.engine.harness import Server, contents, outline
from tests.support.engine.windows import with_window
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.errors import ModelFailed, NotFound
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.refs import SessionRef
from turnstone.domain.sessions.session_context import SummaryInContext
from turnstone.domain.turns.turns import Summary
from turnstone.domain.usage.usage import TokenUsage
from turnstone.engine.measuring import prompt_tokens_of
from turnstone.engine.summary import TASK

QUESTION = "q" * 392  # with its message, a hundred tokens as we estimate them
ANSWER = "a" * 392
TURN_TOKENS = 204


def last_request(server: Server) -> list[str]:
    """Return the texts of the last request for an answer."""
    sent = [contents(request.messages) for request in server.inference.requests]
    return [texts for texts in sent if texts[0] != TASK][-1]


def numbered(text: str, number: int) -> str:
    return f"{number:02}{text[2:]}"


def send_questions(server: Server, ref: SessionRef, times: int, first: int = 0) -> None:
    for number in range(first, first + times):
        server.whole_turn(ref, numbered(QUESTION, number))


def questions(server: Server) -> list[int]:
    """Return the numbers of the questions in the last request."""
    return [int(text[:2]) for text in last_request(server) if text.endswith("q")]


# ---- the context window


@pytest.mark.parametrize(("window", "turns"), [(1_000, 3), (2_000, 6), (None, 9)])
def test_a_model_receives_as_much_as_its_window_holds_beside_room_for_the_answer(
    make: Make, window: int | None, turns: int
) -> None:
    server = with_window(make(*[ANSWER] * 10), window)
    ref = server.session()
    send_questions(server, ref, 10)
    assert questions(server) == list(range(9 - turns, 10))


def test_a_window_wider_than_the_records_read_is_filled_by_one_more_read(make: Make) -> None:
    server = make(*[ANSWER] * 22, context_tokens=1_000)
    ref = server.session()
    send_questions(server, ref, 20)
    assert len(questions(server)) < 6
    before = len(server.store.calls)
    with_window(server, 100_000).whole_turn(ref, numbered(QUESTION, 20))
    assert questions(server) == list(range(21))
    ranges = [call for call in server.store.calls[before:] if call.verb == "range"]
    assert len(ranges) == 1
    with_window(server, None).whole_turn(ref, numbered(QUESTION, 21))
    assert [call for call in server.store.calls if call.verb == "range"] == ranges


def test_a_session_that_was_read_whole_is_not_read_again_for_a_wide_window(make: Make) -> None:
    server = with_window(make(*[ANSWER] * 3, context_tokens=1_000), 100_000)
    send_questions(server, server.session(), 3)
    assert [call for call in server.store.calls if call.verb == "range"] == []


def counting(factor: float) -> Callable[[InferenceRequest], Reply]:
    """Return a reply of a model that counts `factor` tokens for each estimated one."""

    def reply(request: InferenceRequest) -> Reply:
        return ScriptedReply((ANSWER,), usage=TokenUsage(prompt_tokens=int(factor * prompt_tokens_of(request))))

    return reply


def test_the_budget_is_measured_by_the_models_count_of_the_turn_before(make: Make) -> None:
    server = make(*[counting(2.0)] * 10, context_tokens=2_000)
    ref = server.session()
    send_questions(server, ref, 10)
    sent = prompt_tokens_of(server.inference.requests[-1])
    assert server.header(ref).token_factor == pytest.approx(2.0, abs=0.01)
    assert 1_000 - TURN_TOKENS <= sent <= 1_000
    server.assert_whole(ref)


# ---- summaries


class Remembering:
    """Answers, and writes the next of `written` as a summary; `summary_requests` are the texts to summarize."""

    def __init__(self, *written: Reply) -> None:
        self._written = list(written)
        self.summary_requests: list[str] = []

    def __call__(self, request: InferenceRequest) -> Reply:
        if request.messages[0].content != TASK:
            return ANSWER
        self.summary_requests.append(str(request.messages[1].content))
        return self._written.pop(0)


def remembering(make: Make, *written: Reply, **settings: Any) -> tuple[Server, Remembering]:
    model = Remembering(*written)
    return make(*[model] * 60, **{"context_tokens": 1_500, "summaries": True, **settings}), model


def summaries(server: Server, ref: SessionRef) -> list[Summary]:
    return [segment.summary for segment in server.segments(ref) if segment.summary is not None]


def test_turns_beyond_the_window_are_replaced_by_their_summary(make: Make) -> None:
    server, model = remembering(make, "They like tea.")
    ref = server.session()
    send_questions(server, ref, 7)
    (summary,) = summaries(server, ref)
    shown = server.core.contexts.read(LOCAL_CALLER, ref)
    orders = [state.order for state in server.states(ref)]
    covered = orders.index(summary.last_order) + 1
    assert (summary.text, summary.first_order) == ("They like tea.", orders[0])
    assert [numbered(QUESTION, number) in model.summary_requests[0] for number in range(7)] == [
        n < covered for n in range(7)
    ]
    assert shown.summary == SummaryInContext(
        text="They like tea.", first_turn_id=orders[0], last_turn_id=summary.last_order, model_id="scripted"
    )
    assert [turn.turn_id for turn in shown.turns] == orders[covered:]
    server.whole_turn(ref, numbered(QUESTION, 7))
    assert last_request(server)[0] == "[Summary of the earlier conversation]\nThey like tea."
    assert questions(server) == list(range(covered, 8))
    server.assert_whole(ref)


def test_a_summary_rolls_on_and_only_the_newest_is_sent(make: Make) -> None:
    server, model = remembering(make, "They like tea.", "They like tea and rain.", "All that.", "More.", "Most.")
    ref = server.session()
    send_questions(server, ref, 14)
    first, second, *_ = summaries(server, ref)
    assert "Summary of what came before:\nThey like tea.\n" in model.summary_requests[1]
    assert (second.first_order, second.last_order > first.last_order) == (first.first_order, True)
    newest = summaries(server, ref)[-1]
    server.whole_turn(ref)
    assert [text for text in last_request(server) if text.startswith("[Summary")] == [
        f"[Summary of the earlier conversation]\n{newest.text}"
    ]
    server.assert_whole(ref)


def test_a_summary_is_stored_with_the_end_of_its_turn_and_costs_no_other_write(make: Make) -> None:
    server, model = remembering(make, "They like tea.")
    ref = server.session()
    number = 0
    while not model.summary_requests:
        before = len(server.store.calls)
        send_questions(server, ref, 1, number)
        number += 1
    assert [call.verb for call in server.store.calls[before:]].count("write") == 2
    assert server.states(ref)[-1].summary == summaries(server, ref)[0]


@pytest.mark.parametrize("reply", [ModelFailed("overheated"), "", "  "], ids=["fails", "empty", "blank"])
def test_a_summary_that_fails_ends_no_turn_and_the_oldest_is_dropped_as_ever(make: Make, reply: Reply) -> None:
    server, model = remembering(make, *[reply] * 20)
    ref = server.session()
    for number in range(10):
        assert outline(server.whole_turn(ref, numbered(QUESTION, number))).endswith("complete")
    assert (len(model.summary_requests) > 1, summaries(server, ref)) == (True, [])
    assert questions(server)[-1] == 9
    assert 0 not in questions(server)
    server.assert_whole(ref)


def test_no_summary_is_requested_unless_it_is_configured(make: Make) -> None:
    server, model = remembering(make, summaries=False)
    ref = server.session()
    send_questions(server, ref, 10)
    assert (model.summary_requests, summaries(server, ref)) == ([], [])


def test_a_summary_counts_in_the_usage_of_its_turn(make: Make) -> None:
    server, _ = remembering(
        make, ScriptedReply(("Tea.",), usage=TokenUsage(prompt_tokens=1_000, completion_tokens=100))
    )
    ref = server.session()
    send_questions(server, ref, 7)
    assert max(state.spent["scripted"].total_tokens for state in server.states(ref)) == 1_115
    server.assert_whole(ref)


def test_nothing_is_missing_between_a_summary_and_now_however_the_log_is_cut(make: Make) -> None:
    server, _ = remembering(make, *["So far."] * 30)
    ref = server.session()
    send_questions(server, ref, 7)
    for number in range(7, 30):
        newest = summaries(server, ref)[-1]
        orders = [state.order for state in server.states(ref)]
        server.whole_turn(ref, numbered(QUESTION, number))
        assert last_request(server)[0].startswith("[Summary")
        assert questions(server) == list(range(orders.index(newest.last_order) + 1, number + 1))
    assert len(summaries(server, ref)) > 3


# ---- the context that callers read


@pytest.mark.parametrize(("window", "budget", "turns"), [(None, 2_000, 9), (100_000, 75_000, 20), (1_000, 750, 3)])
def test_the_context_shows_the_budget_and_the_turns_of_the_next_request(
    make: Make, window: int | None, budget: int, turns: int
) -> None:
    server = with_window(make(*[ANSWER] * 20, context_tokens=2_000), window)
    ref = server.session()
    send_questions(server, ref, 20)
    shown = server.core.contexts.read(LOCAL_CALLER, ref)
    assert (shown.window_tokens, shown.budget_tokens, shown.token_factor, shown.summary) == (window, budget, 1.0, None)
    newest = [state.order for state in server.states(ref)][-turns:]
    assert [(turn.turn_id, turn.tokens) for turn in shown.turns] == [(order, TURN_TOKENS) for order in newest]


def test_the_context_of_another_callers_session_is_not_found(make: Make) -> None:
    server = make("a", owner_only=True)
    ref = server.session()
    with pytest.raises(NotFound):
        server.core.contexts.read(Caller(tenant=ref.tenant, principal="mate"), ref)


@pytest.mark.parametrize(("answer", "sent"), [(ANSWER, [ANSWER]), ("a" * 1_000_000, [])])
def test_the_context_shows_the_part_of_a_turn_that_does_not_fit(make: Make, answer: str, sent: list[str]) -> None:
    server = make("first", answer, "third", context_tokens=2_000)
    ref = server.session()
    server.whole_turn(ref, "first question")
    server.whole_turn(ref, "q" * 1_000_000)
    shown = server.core.contexts.read(LOCAL_CALLER, ref)
    assert sum(turn.tokens for turn in shown.turns) <= shown.budget_tokens
    assert [turn.tokens for turn in shown.turns] == [4 + len(text) // 4 for text in sent]
    server.whole_turn(ref, "third question")
    assert [text for text in last_request(server) if text[0] in "aq"] == sent


def test_the_context_has_no_summary_that_does_not_fit(make: Make) -> None:
    server = make("first", "second", context_tokens=2_000)
    ref = server.session()
    server.whole_turn(ref, "first question")
    object.__setattr__(server.core.contexts, "context_tokens", 0)
    shown = server.core.contexts.read(LOCAL_CALLER, ref)
    assert (shown.budget_tokens, shown.summary, shown.turns) == (0, None, ())
