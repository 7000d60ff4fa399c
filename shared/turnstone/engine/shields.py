"""Run shields: on the client's input before the model sees it, on each output before it is emitted.

The stored steps record the finished shields, so that none runs twice after a crash.
"""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import replace

from turnstone.domain.messages.messages import CompletionMessage, Message, ToolResponseMessage
from turnstone.domain.shields.verdicts import ShieldQuestion
from turnstone.domain.tools.tools import ToolResponse
from turnstone.domain.turns.events import StepStarted, TurnEvent, step_completed
from turnstone.domain.turns.turn_settings import with_documents
from turnstone.domain.turns.turns import (
    InferenceStep,
    SafetyViolation,
    ShieldCallStep,
    StepTrace,
    ToolExecutionStep,
    Touchpoint,
    TurnState,
    Verdict,
    newest_from_client,
)
from turnstone.domain.values.content import Content, TextItem, items_of
from turnstone.domain.values.moments import strictly_after
from turnstone.engine.steps import AwaitClientTools, Blocked, EngineDeps, Finish, NextStep, RunAgain

Ending = Finish | AwaitClientTools
Judging = Generator[TurnEvent, None, NextStep]


def input_shields_left(state: TurnState, shield_ids: Sequence[str]) -> tuple[str, ...]:
    """Return the shields that have yet to judge the client's last input, each once; none once the model saw it."""
    since = newest_from_client(state.turn.steps, state.traces)
    return () if since is None else shields_left(shield_ids, state.traces[since:], "user-input")


def output_shields_left(state: TurnState, shield_ids: Sequence[str]) -> tuple[str, ...]:
    """Return the shields that have yet to judge the model's last output, before a pause or at the end."""
    return shields_left(shield_ids, state.traces[first_after_inference(state) :], "assistant-output")


def judge_input(shield_ids: Sequence[str], state: TurnState, deps: EngineDeps) -> Judging:
    """Judge the client's last input; the turn continues unless a shield stops it."""
    answers = _answers_of_client(state)
    question = ShieldQuestion(
        judged=answers or with_documents(state.turn.input_messages, state.documents),
        touchpoint="user-input",
        before=state.turn.input_messages if answers else (),
        provider_data=deps.provider_data,
        stop=deps.stop,
    )
    return (yield from judge_kept(shield_ids, question, state, deps))


def _answers_of_client(state: TurnState) -> tuple[Message, ...]:
    """Return the answers of the last resume, as the model will see them; none if the turn's messages are newer.

    The names of calls parsed by the client from the model's text are the client's own, too.
    """
    since = newest_from_client(state.turn.steps, state.traces)
    step = state.turn.steps[since - 1] if since else None
    if not isinstance(step, ToolExecutionStep):
        return ()
    return tuple(
        ToolResponseMessage(call_id=answer.call_id, content=answer.content if step.tool_calls else _named(answer))
        for answer in step.tool_responses
    )


def _named(answer: ToolResponse) -> Content:
    """Return the answer's content with the name of its tool before it."""
    if isinstance(answer.content, str):
        return f"{answer.tool_name}\n{answer.content}"
    return (TextItem(text=answer.tool_name), *items_of(answer.content))


def judge_kept(shield_ids: Sequence[str], question: ShieldQuestion, state: TurnState, deps: EngineDeps) -> Judging:
    """Judge the messages and store every step; the turn continues unless a shield stops it."""
    state, stopped = yield from _judged(shield_ids, question, state, deps)
    if stopped is not None:
        return stopped
    yield from keep_newest(state, deps)
    return RunAgain(state)


def judge_output(shield_ids: Sequence[str], ending: Ending, deps: EngineDeps) -> Judging:
    """Judge the output; the turn ends with it unless a shield stops it."""
    question = ShieldQuestion(
        judged=(ending.output,),
        touchpoint="assistant-output",
        before=ending.state.turn.input_messages,
        provider_data=deps.provider_data,
        stop=deps.stop,
    )
    state, stopped = yield from _judged(shield_ids, question, ending.state, deps)
    return stopped or replace(ending, state=state, unpublished=(step_completed(state.turn.steps[-1]),))


def _judged(
    shield_ids: Sequence[str], question: ShieldQuestion, state: TurnState, deps: EngineDeps
) -> Generator[TurnEvent, None, tuple[TurnState, Blocked | None]]:
    """Emit each shield's step in order; every one but the last is stored, and reported when it is complete."""
    started_at, ended_at = state.next_moment(deps.clock.now()), state.last_moment
    with closing(deps.shields.judge(shield_ids, question)) as verdicts:
        for index, shield_id in enumerate(shield_ids):
            if index:
                yield from keep_newest(state, deps)
            step_id = deps.ids.new_id()
            yield StepStarted(step_type="shield_call", step_id=step_id, metadata={"touchpoint": question.touchpoint})
            verdict: Verdict = next(verdicts)
            ended_at = strictly_after(deps.clock.now(), started_at, ended_at)
            step = ShieldCallStep(
                turn_id=state.turn_id,
                step_id=step_id,
                started_at=started_at,
                completed_at=ended_at,
                violation=verdict.violation,
            )
            trace = StepTrace(
                usage=verdict.usage,
                model=verdict.model,
                shield_id=shield_id,
                touchpoint=question.touchpoint,
                call_id=question.call_id,
                query=None if index else question.query,
            )
            started_at = strictly_after(started_at, started_at)
            state = state.with_step(step, trace)
            if verdict.violation is not None and step.has_stopped:
                return state, Blocked(state, stop_message(verdict.violation), unpublished=(step_completed(step),))
    return state, None


def first_after_inference(state: TurnState) -> int:
    """Return the index of the first step after the last inference; call ids are unique only from there on."""
    return 1 + max((i for i, step in enumerate(state.turn.steps) if isinstance(step, InferenceStep)), default=-1)


def keep_newest(state: TurnState, deps: EngineDeps) -> Generator[TurnEvent, None, None]:
    """Store the newest step and emit its completion."""
    deps.recorder.save_step(state)
    yield step_completed(state.turn.steps[-1])


def stop_message(violation: SafetyViolation) -> CompletionMessage:
    """Return the outcome of a stopped turn."""
    return CompletionMessage(content=violation.user_message or "", stop_reason="end_of_turn")


def shields_left(
    shield_ids: Sequence[str], traces: Sequence[StepTrace], touchpoint: Touchpoint, call_id: str | None = None
) -> tuple[str, ...]:
    """Return the shields that have not judged that yet, each once."""
    have_judged = {trace.shield_id for trace in traces if (trace.touchpoint, trace.call_id) == (touchpoint, call_id)}
    return tuple(shield_id for shield_id in dict.fromkeys(shield_ids) if shield_id not in have_judged)
