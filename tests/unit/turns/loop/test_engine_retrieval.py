"""Memory in the turn loop: one step before the first inference, shown to the model in that turn, judged by its shields.

Covers: engine/retrieval, engine/turn, engine/tool_shields, domain/turns/retrieval
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.memory.retrieval import ScriptedRetrieval
from tests.fakes.shields import clean, stops
from tests.support.engine.shield_steps import KEPT, touchpoints
from tests.support.engine.turn_loop import (
    CLIENT_CALL,
    CONFIG,
    PRICE,
    TOOL_KEPT,
    Engine,
    Saved,
    new_turn,
    outline,
    read_again,
)
from turnstone.domain.errors import ModelFailed, TurnLimitReached
from turnstone.domain.memory.memory_query import MemoryQuery
from turnstone.domain.messages.messages import CompletionMessage, UserMessage, message_text
from turnstone.domain.sessions.context import ended_messages
from turnstone.domain.tools.tools import ToolResponse
from turnstone.domain.turns.events import StepCompleted, StepStarted
from turnstone.domain.turns.turn_settings import TurnDocument
from turnstone.domain.turns.turns import MemoryRetrievalStep, StepTrace, ToolExecutionStep, TurnState, Verdict
from turnstone.domain.usage.usage import Tokens, TokenUsage
from turnstone.engine.retrieval import STOPPED
from turnstone.engine.steps import AwaitClientTools, Blocked, Finish, RunAgain

RETRIEVED = ["S memory_retrieval", "saved memory_retrieval", "C memory_retrieval"]
CONTEXT = "knots breed in the north"
WRITTEN = MemoryQuery(
    text="knots", usage=TokenUsage(prompt_tokens=7, completion_tokens=2, total_tokens=9), model="writer"
)


def with_memory(*script: Any, memory: ScriptedRetrieval | None = None, **more: Any) -> tuple[Engine, ScriptedRetrieval]:
    memory = memory or ScriptedRetrieval()
    return Engine(*script, retrieval=memory, **more), memory


def step_of(state: TurnState) -> MemoryRetrievalStep:
    (step,) = [step for step in state.turn.steps if isinstance(step, MemoryRetrievalStep)]
    return step


def test_memory_is_read_before_the_first_inference_in_one_step_with_one_id() -> None:
    engine, memory = with_memory(PRICE, "thanks")
    ending = engine.run(new_turn("where?"))
    assert isinstance(ending, Finish)
    assert outline(engine.journal)[: 3 + 1] == [*RETRIEVED, "S inference"]
    assert outline(engine.journal).count("S memory_retrieval") == 1
    started, completed = engine.emitted[0], engine.emitted[1]
    assert isinstance(started, StepStarted)
    assert isinstance(completed, StepCompleted)
    assert started.step_id == completed.step_id == step_of(ending.state).step_id
    assert (step_of(ending.state).vector_db_ids, step_of(ending.state).inserted_context) == ("shore,sea", CONTEXT)
    assert memory.queries == ["where?"]


def test_the_model_sees_the_inserted_context_in_this_turn_and_in_no_later_one() -> None:
    engine, _ = with_memory(PRICE, "thanks")
    state = new_turn("where?").model_copy(update={"documents": (TurnDocument(content="a map"),)})
    ending = engine.run(state)
    assert len(engine.inference.requests) == 2
    for request in engine.inference.requests:
        (question,) = [message for message in request.messages if isinstance(message, UserMessage)]
        assert (question.content, message_text(question)) == ("where?", f"where?\na map\n{CONTEXT}")
    assert not [message for message in ended_messages(ending.state) if CONTEXT in message_text(message)]


def test_nothing_is_inserted_where_memory_has_nothing() -> None:
    engine, _ = with_memory("ok", memory=ScriptedRetrieval(found="", output_shields=("a",)), shields={"a": clean})
    ending = engine.run(new_turn("where?"))
    assert engine.inference.requests[0].messages[-1] == UserMessage(content="where?")
    assert step_of(ending.state).inserted_context == ""
    assert engine.shields.questions == []


def test_after_a_takeover_the_step_is_there_once() -> None:
    """From every stored state on; a run that died in the middle of the reading reads again."""
    engine, memory = with_memory(PRICE, "thanks", memory=ScriptedRetrieval(input_shields=("a",)), shields={"a": clean})
    engine.run(new_turn())
    for stored in [new_turn(), *(entry.state for entry in engine.journal if isinstance(entry, Saved))]:
        again, _ = with_memory(PRICE, "thanks", memory=ScriptedRetrieval(input_shields=("a",)), shields={"a": clean})
        ending = again.run(read_again(stored))
        assert step_of(ending.state).inserted_context == CONTEXT
    assert memory.queries == ["hello"]


def test_a_turn_that_continues_after_answers_of_its_client_reads_no_memory_again() -> None:
    engine, _ = with_memory(CLIENT_CALL)
    waiting = engine.run(new_turn())
    assert isinstance(waiting, AwaitClientTools)
    answered = waiting.state.with_step(
        ToolExecutionStep(
            turn_id="t1",
            step_id="client",
            tool_calls=(CLIENT_CALL,),
            tool_responses=(ToolResponse(call_id="c3", tool_name="ask", content="two"),),
        ),
        StepTrace(is_from_client=True),
    )
    again, memory = with_memory("thanks")
    assert isinstance(again.run(read_again(answered)), Finish)
    assert memory.queries == []
    assert CONTEXT in message_text(again.inference.requests[0].messages[1])


def test_a_query_is_made_of_the_conversation() -> None:
    history = (UserMessage(content="earlier"), CompletionMessage(content="answer", stop_reason="end_of_turn"))
    engine, memory = with_memory("ok", history=history)
    engine.run(new_turn("where?").model_copy(update={"documents": (TurnDocument(content="a map"),)}))
    (conversation,) = memory.sources
    assert conversation.messages == (UserMessage(content="where?"),)
    assert conversation.history == history


# ---- a query that a model writes


def test_a_written_query_is_counted_once_under_its_model() -> None:
    memory = ScriptedRetrieval(written=WRITTEN, input_shields=("a",))
    engine, _ = with_memory("ok", memory=memory, shields={"a": clean})
    spent = engine.run(new_turn()).state.spent
    assert spent["writer"] == Tokens(inferences=1, prompt_tokens=7, completion_tokens=2)
    without, _ = with_memory("ok", memory=ScriptedRetrieval(written=WRITTEN))
    assert without.run(new_turn()).state.spent["writer"] == spent["writer"]


def test_a_judged_query_is_the_one_that_is_sent_after_a_takeover_too() -> None:
    memory = ScriptedRetrieval(written=WRITTEN, input_shields=("a", "b"))
    engine, _ = with_memory("ok", memory=memory, shields={"a": clean, "b": clean})
    following = engine.move(new_turn())
    assert isinstance(following, RunAgain)
    for stored in [entry.state for entry in engine.journal if isinstance(entry, Saved)]:
        memory = ScriptedRetrieval(written=ModelFailed("written again"), input_shields=("a", "b"))
        again, _ = with_memory("ok", memory=memory, shields={"a": clean, "b": clean})
        assert again.run(read_again(stored)).state.spent["writer"].prompt_tokens == 7
        assert memory.queries == ["knots"]
        assert [name for name, _ in again.shields.questions] == (["b"] if len(stored.turn.steps) == 1 else [])


def test_no_query_is_written_over_the_limit_of_a_turn() -> None:
    usage = TokenUsage(prompt_tokens=30, completion_tokens=0, total_tokens=30)
    config = CONFIG.model_copy(update={"input_shields": ("guard",)})
    shields = {"guard": lambda _: Verdict(usage=usage, model="guard")}
    engine, memory = with_memory("ok", config=config, shields=shields, max_turn_tokens=20)
    with pytest.raises(TurnLimitReached):
        engine.run(new_turn())
    assert memory.sources == []


def test_an_error_of_memory_leaves_the_turn_without_a_step() -> None:
    for memory in (ScriptedRetrieval(written=ModelFailed("no")), ScriptedRetrieval(found=ModelFailed("no"))):
        engine, _ = with_memory("ok", memory=memory)
        with pytest.raises(ModelFailed):
            engine.run(new_turn())
        assert outline(engine.journal) == ["S memory_retrieval"]


# ---- shields


def test_shields_of_memory_judge_the_query_and_the_context() -> None:
    memory = ScriptedRetrieval(input_shields=("a",), output_shields=("a", "b"), written=WRITTEN)
    engine, _ = with_memory("ok", memory=memory, shields={"a": clean, "b": clean})
    assert isinstance(engine.run(new_turn()), Finish)
    assert outline(engine.journal)[:12] == [*KEPT, *RETRIEVED, *KEPT, *KEPT]
    assert touchpoints(engine)[:4] == ["tool-input", None, "tool-output", "tool-output"]
    judged = [(name, message_text(question.judged[0]), question.call_id) for name, question in engine.shields.questions]
    assert judged == [("a", "knots", None), ("a", CONTEXT, None), ("b", CONTEXT, None)]


def test_shields_of_the_agent_come_first() -> None:
    config = CONFIG.model_copy(update={"input_shields": ("a",)})
    engine, memory = with_memory("ok", config=config, shields={"a": stops("hello")})
    assert isinstance(engine.run(new_turn()), Blocked)
    assert memory.sources == []


def test_a_stopped_query_reads_nothing_and_ends_the_turn() -> None:
    memory = ScriptedRetrieval(input_shields=("a",), written=WRITTEN)
    engine, _ = with_memory(memory=memory, shields={"a": stops("knots")})
    ending = engine.run(new_turn())
    assert isinstance(ending, Blocked)
    assert (ending.output.content, memory.queries) == ("stopped", [])
    assert ending.state.spent["writer"].prompt_tokens == 7
    assert ended_messages(ending.state.completed(ending.output, ending.state.last_moment)) == ()


def test_a_stopped_context_is_never_stored_and_ends_the_turn_after_a_takeover_too() -> None:
    memory = ScriptedRetrieval(output_shields=("a", "b"))
    engine, _ = with_memory(memory=memory, shields={"a": stops("north"), "b": clean})
    ending = engine.run(new_turn())
    assert isinstance(ending, Blocked)
    assert ending.output.content == "stopped"
    assert step_of(ending.state).inserted_context == STOPPED
    assert CONTEXT not in ending.state.model_dump_json()
    assert [name for name, _ in engine.shields.questions] == ["a"]
    again, unread = with_memory()
    assert isinstance(again.run(engine.stored), Blocked)
    assert unread.queries == []


def test_a_finding_about_memory_has_a_step_although_an_earlier_turns_call_has_one_of_the_same_shield() -> None:
    """Both are before the first inference, where a turn carries approved calls."""
    memory = ScriptedRetrieval(output_shields=("a",))
    engine, _ = with_memory("thanks", memory=memory, shields={"a": clean})
    ending = engine.run(new_turn().model_copy(update={"carried_calls": (PRICE,)}))
    assert isinstance(ending, Finish)
    assert outline(engine.journal)[:9] == [*RETRIEVED, "S tool_execution", "P c1 in_progress", *TOOL_KEPT, *KEPT[:2]]
    assert touchpoints(engine).count("tool-output") == 1
