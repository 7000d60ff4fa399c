"""Run shields on tools: on a call before it runs, on an answer before it is stored.

Findings about an answer are stored with it, and emitted as steps of their own after all answers of an inference. So a
stopped answer is never stored, even after a crash, and the answers of parallel calls are.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing

from pydantic_core import to_json

from turnstone.domain.messages.messages import CompletionMessage, Message, ToolResponseMessage
from turnstone.domain.shields.verdicts import ShieldQuestion
from turnstone.domain.tools.tool_runs import ProducedFile, ServerCall
from turnstone.domain.tools.tools import ToolCall, ToolResponse
from turnstone.domain.turns.events import StepStarted, TurnEvent, step_completed
from turnstone.domain.turns.turns import (
    ShieldCallStep,
    StepTrace,
    ToolExecutionStep,
    Touchpoint,
    TurnState,
    Verdict,
)
from turnstone.domain.values.content import Content
from turnstone.domain.values.moments import strictly_after
from turnstone.engine.shields import first_after_inference, judge_kept, keep_newest, shields_left, stop_message
from turnstone.engine.steps import Blocked, EngineDeps, NextStep, RunAgain
from turnstone.engine.tool_excerpts import excerpted

STOPPED = "The answer of this tool was stopped by a safety check."
PendingVerdict = tuple[str | None, Verdict]


def judge_call(planned: ServerCall, state: TurnState, deps: EngineDeps) -> Generator[TurnEvent, None, NextStep]:
    """Judge the call by the pending shields of its tool; the turn continues unless one stops it."""
    since = state.traces[first_after_inference(state) :]
    left = shields_left(planned.tool.input_shields, since, "tool-input", planned.call.call_id)
    if not left:
        return RunAgain(state)
    call_message = CompletionMessage(content=_call_text(planned), stop_reason="end_of_turn")
    return (yield from judge_kept(left, _question(call_message, "tool-input", planned.call, state, deps), state, deps))


def judged_answer(
    planned: ServerCall, response: ToolResponse, files: Sequence[ProducedFile], state: TurnState, deps: EngineDeps
) -> tuple[Verdict, ...]:
    """Return the findings of the tool's shields about its answer and its files, up to the first one that stops them."""
    shield_ids = tuple(dict.fromkeys(planned.tool.output_shields))
    if not shield_ids:
        return ()
    content = excerpted(response, files, deps.tools.max_characters)
    answered = ToolResponseMessage(call_id=response.call_id, content=content)
    question = _question(answered, "tool-output", planned.call, state, deps)
    found: list[Verdict] = []
    with closing(deps.shields.judge(shield_ids, question)) as verdicts:
        for verdict in verdicts:
            found.append(verdict)
            if has_stopped(verdict):
                break
    return tuple(found)


def has_stopped(verdict: Verdict) -> bool:
    return verdict.violation is not None and verdict.violation.violation_level == "error"


def pending_verdicts(state: TurnState) -> tuple[PendingVerdict, ...]:
    """Return the findings since the last inference without a step yet, in order, with the calls; None for memory."""
    first = first_after_inference(state)
    steps, traces = state.turn.steps[first:], state.traces[first:]
    emitted = {(trace.call_id, trace.shield_id) for trace in traces if trace.touchpoint == "tool-output"}
    found = [
        (step.tool_calls[0].call_id if isinstance(step, ToolExecutionStep) else None, verdict)
        for step, trace in zip(steps, traces, strict=True)
        for verdict in trace.verdicts
    ]
    return tuple(each for each in found if (each[0], each[1].shield_id) not in emitted)


def emit_verdict(pending: PendingVerdict, state: TurnState, deps: EngineDeps) -> Generator[TurnEvent, None, NextStep]:
    """Emit a finding about an answer, or about memory, as a step; the turn continues unless it was stopped."""
    call_id, verdict = pending
    step_id, now = deps.ids.new_id(), deps.clock.now()
    started_at = state.next_moment(now)
    yield StepStarted(step_type="shield_call", step_id=step_id, metadata={"touchpoint": "tool-output"})
    step = ShieldCallStep(
        turn_id=state.turn_id,
        step_id=step_id,
        started_at=started_at,
        completed_at=strictly_after(now, started_at),
        violation=verdict.violation,
    )
    trace = StepTrace(
        usage=verdict.usage,
        model=verdict.model,
        shield_id=verdict.shield_id,
        touchpoint="tool-output",
        call_id=call_id,
    )
    state = state.with_step(step, trace)
    if verdict.violation is not None and has_stopped(verdict):
        return Blocked(state, stop_message(verdict.violation), unpublished=(step_completed(step),))
    yield from keep_newest(state, deps)
    return RunAgain(state)


def stopped_response(response: ToolResponse) -> ToolResponse:
    """Return the replacement of a stopped answer in the turn."""
    content: Content = STOPPED
    return response.model_copy(update={"content": content, "metadata": {"error": True, "stopped": True}})


def _question(
    judged: Message, touchpoint: Touchpoint, call: ToolCall, state: TurnState, deps: EngineDeps
) -> ShieldQuestion:
    return ShieldQuestion(
        judged=(judged,),
        touchpoint=touchpoint,
        call_id=call.call_id,
        before=state.turn.input_messages,
        provider_data=deps.provider_data,
        stop=deps.stop,
    )


def _call_text(planned: ServerCall) -> str:
    return f"{planned.call.tool_name}({to_json(planned.arguments).decode()})"
