"""The tokens of an inference, reported by its provider or estimated, and a turn that exceeds its limit.

Covers: engine/measuring, domain/sessions/context_budget, store/sessions/turns
"""

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.models.scripted import ScriptedReply
from tests.support.engine.turn_loop import CONFIG, PRICE, Engine, new_turn
from turnstone.domain.errors import TurnLimitReached
from turnstone.domain.messages.messages import CompletionMessage, Message, SystemMessage, UserMessage
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.refs import SessionRef
from turnstone.domain.sessions.context import EMPTY_ENTRY_TOKENS, Entry, Segment, tokens_of
from turnstone.domain.sessions.context_budget import History
from turnstone.domain.usage.usage import TokenUsage
from turnstone.engine.measuring import prompt_tokens_of
from turnstone.ports.storage import RangeStore
from turnstone.store.sessions.turns import TurnStore

REF = SessionRef(tenant="t", agent_id="a", session_id="s")
TEXTS = st.text(max_size=40)
QUESTIONS = st.builds(UserMessage, content=TEXTS)
ANSWERS = st.builds(CompletionMessage, content=TEXTS, stop_reason=st.just("end_of_turn"))
TURNS = st.lists(st.tuples(QUESTIONS, ANSWERS) | st.just(()), max_size=8)


@pytest.mark.parametrize("usage", [None, TokenUsage()], ids=["none", "nothing"])
def test_tokens_that_a_provider_does_not_report_are_estimated_and_marked_so(usage: TokenUsage | None) -> None:
    engine = Engine(ScriptedReply(("x" * 400,), usage=usage))
    (trace,) = engine.run(new_turn()).state.traces
    estimated = prompt_tokens_of(engine.inference.requests[0])
    assert trace.usage == TokenUsage(
        prompt_tokens=estimated, completion_tokens=104, total_tokens=estimated + 104, is_estimated=True
    )
    assert trace.usage.spent.estimated_inferences == 1


def test_the_estimate_of_a_prompt_counts_its_tools() -> None:
    with_tools = Engine("c")
    without = Engine("c", config=CONFIG.model_copy(update={"toolgroups": (), "client_tools": ()}))
    with_tools.run(new_turn())
    without.run(new_turn())
    assert prompt_tokens_of(with_tools.inference.requests[0]) > prompt_tokens_of(without.inference.requests[0])


@pytest.mark.parametrize(("limit", "request_count"), [(15, 1), (16, 2), (None, 2)])
def test_a_turn_that_has_spent_its_tokens_makes_no_further_request(limit: int | None, request_count: int) -> None:
    engine = Engine(PRICE, "3 coins")
    engine.deps = engine.deps._replace(max_turn_tokens=limit)
    if request_count == 1:
        with pytest.raises(
            TurnLimitReached, match=r"spent 15 tokens, and a turn may spend 15 \(the limit TURNSTONE_MAX_TURN"
        ):
            engine.run(new_turn())
        assert [step.step_type for step in engine.stored.turn.steps] == ["inference", "tool_execution"]
    else:
        engine.run(new_turn())
    assert request_count == len(engine.inference.requests)


@given(TURNS, st.integers(1, 200))
def test_the_tokens_of_a_history_are_those_of_its_messages(turns: list[tuple[Message, ...]], budget: int) -> None:
    entries = tuple(
        Entry(order=f"{index:04}", tokens=tokens_of(messages) or EMPTY_ENTRY_TOKENS, messages=messages)
        for index, messages in enumerate(turns)
    )
    store = TurnStore(cast(RangeStore, None))  # the log holds all of these messages
    history = store.history(REF, (Segment(number=0, entries=entries),), budget)
    assert history.tokens == tokens_of(history.messages)
    request = InferenceRequest("m", (SystemMessage(content="be kind"), *history.messages, UserMessage(content="é")))
    assert prompt_tokens_of(request, history) == prompt_tokens_of(request)


def test_a_history_that_a_request_holds_in_another_form_is_counted_again() -> None:
    messages = tuple(UserMessage(content=text) for text in "abc")
    history = History(messages, 1_000)
    for sent in ((messages[0], *messages), messages[:2], (UserMessage(content="a"), *messages[1:])):
        request = InferenceRequest("m", sent)
        assert prompt_tokens_of(request, history) == tokens_of(sent)
