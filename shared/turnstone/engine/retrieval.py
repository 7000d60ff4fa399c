"""Read memory before the first inference: judge the query, and store the inserted context as a step of its own.

Findings about the context are stored with it, as those about a tool's answer are: a stopped context is never stored.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from typing import TYPE_CHECKING

from turnstone.domain.memory.memory_query import MemoryQuery, Retrieved
from turnstone.domain.messages.messages import CompletionMessage, Message, ToolResponseMessage
from turnstone.domain.shields.verdicts import ShieldQuestion
from turnstone.domain.turns.events import StepStarted, TurnEvent, step_completed
from turnstone.domain.turns.retrieval import QuerySource
from turnstone.domain.turns.turns import InferenceStep, MemoryRetrievalStep, StepTrace, Touchpoint, TurnState, Verdict
from turnstone.domain.values.moments import strictly_after
from turnstone.engine.measuring import refuse_over_limit
from turnstone.engine.shields import judge_kept, shields_left
from turnstone.engine.steps import EngineDeps, NextStep, RunAgain
from turnstone.engine.tool_shields import has_stopped

if TYPE_CHECKING:  # few turns have memory
    from turnstone.ports.memory import Retrieval

MEMORY = "memory"
STOPPED = "The memory of this turn was stopped by a safety check."


def retrieval_left(state: TurnState, deps: EngineDeps) -> Retrieval | None:
    """Return the turn's memory if it has yet to be read; None once it was, or the model has answered."""
    is_late = any(isinstance(step, InferenceStep | MemoryRetrievalStep) for step in state.turn.steps)
    return None if is_late else deps.retrieval


def retrieve(retrieval: Retrieval, state: TurnState, deps: EngineDeps) -> Generator[TurnEvent, None, NextStep]:
    """Judge the query by the pending shields, else read memory; the turn continues unless a shield stops it."""
    kept = next((trace.query for trace in state.traces if trace.query is not None), None)
    left = shields_left(retrieval.input_shields, state.traces, "tool-input")
    if left:
        query = kept or _query(retrieval, state, deps)
        written = CompletionMessage(content=query.text, stop_reason="end_of_turn")
        question = _question(written, "tool-input", state, deps)._replace(query=None if kept else query)
        return (yield from judge_kept(left, question, state, deps))
    step_id = deps.ids.new_id()
    started_at = state.next_moment(deps.clock.now())
    yield StepStarted(step_type="memory_retrieval", step_id=step_id)
    query = kept or _query(retrieval, state, deps)
    found = retrieval.retrieve(query.text)
    verdicts = _judged_context(retrieval, found, state, deps)
    step = MemoryRetrievalStep(
        turn_id=state.turn_id,
        step_id=step_id,
        started_at=started_at,
        completed_at=strictly_after(deps.clock.now(), started_at),
        vector_db_ids=",".join(found.bank_ids),
        inserted_context=STOPPED if any(map(has_stopped, verdicts)) else found.context,
    )
    state = state.with_step(step, StepTrace(verdicts=verdicts, query=None if kept else query))
    deps.recorder.save_step(state)
    yield step_completed(step)
    return RunAgain(state)


def _query(retrieval: Retrieval, state: TurnState, deps: EngineDeps) -> MemoryQuery:
    """Return the query. Raises as `Retrieval.query` does, and TurnLimitReached."""
    refuse_over_limit(state, deps.max_turn_tokens)
    source = QuerySource(state.turn.input_messages, deps.history.messages, deps.stop, deps.about)
    return retrieval.query(source)


def _judged_context(retrieval: Retrieval, found: Retrieved, state: TurnState, deps: EngineDeps) -> tuple[Verdict, ...]:
    """Return the findings about the context, up to the first one that stops it."""
    shield_ids = tuple(dict.fromkeys(retrieval.output_shields))
    if not shield_ids or not found.context:
        return ()
    inserted = ToolResponseMessage(call_id=MEMORY, content=found.context)
    verdicts: list[Verdict] = []
    with closing(deps.shields.judge(shield_ids, _question(inserted, "tool-output", state, deps))) as judged:
        for verdict in judged:
            verdicts.append(verdict)
            if has_stopped(verdict):
                break
    return tuple(verdicts)


def _question(judged: Message, touchpoint: Touchpoint, state: TurnState, deps: EngineDeps) -> ShieldQuestion:
    return ShieldQuestion(
        judged=(judged,),
        touchpoint=touchpoint,
        before=state.turn.input_messages,
        provider_data=deps.provider_data,
        stop=deps.stop,
    )
