"""The turn loop. One call of `advance` makes the next move of a turn: run shields, memory, the model, or its tools.

A generator of events that returns the next action. It is independent of subscribers, resumes and storage: pausing is
a value, resuming is a call with the stored state.
"""

from collections.abc import Generator
from dataclasses import replace

from turnstone.domain.messages.messages import CompletionMessage, StopReason
from turnstone.domain.models.requests import Chunk, Inferred, TextChunk, TextChunks
from turnstone.domain.models.routing import Target
from turnstone.domain.sessions.context import unanswered_calls
from turnstone.domain.sessions.context_budget import NO_HISTORY
from turnstone.domain.turns.cuts import cuts_of
from turnstone.domain.turns.events import (
    StepDetailed,
    StepProgressed,
    StepStarted,
    TextDelta,
    TextsProgressed,
    TurnEvent,
    call_delta,
    step_completed,
)
from turnstone.domain.turns.turns import AnsweredBy, InferenceStep, StepTrace, ToolExecutionStep, TurnState
from turnstone.domain.values.moments import strictly_after
from turnstone.engine.loop_rules import counted_calls, is_alert_due, output_of, output_tokens_left, runs_last_calls
from turnstone.engine.measuring import measured, refuse_over_limit
from turnstone.engine.prompt import build_request
from turnstone.engine.shields import (
    Ending,
    first_after_inference,
    input_shields_left,
    judge_input,
    judge_output,
    keep_newest,
    output_shields_left,
)
from turnstone.engine.steps import AwaitClientTools, EngineDeps, Finish, NextStep, RunAgain, ToolsRan
from turnstone.engine.tool_plan import plan_tools
from turnstone.engine.tool_shields import emit_verdict, pending_verdicts
from turnstone.engine.tools import run_tools

Move = Generator[TurnEvent | TextsProgressed, None, NextStep]


def advance(state: TurnState, deps: EngineDeps) -> Move:
    """Make the turn's next move.

    Raises ModelError, TurnLimitReached, LeaseLost and StoreUnavailable, and as the turn's memory does; everything else
    is a value.
    """
    if left := input_shields_left(state, deps.config.input_shields):
        return (yield from judge_input(left, state, deps))
    if deps.retrieval is not None:
        from turnstone.engine.retrieval import retrieval_left, retrieve  # few turns have memory

        if (retrieval := retrieval_left(state, deps)) is not None:
            return (yield from retrieve(retrieval, state, deps))
    ending = ending_of(state, deps)
    calls = unanswered_calls(state) if ending is None else ()
    if calls:
        following = yield from run_tools(plan_tools(calls, state, deps.offer), state, deps)
        return (yield from _saved_or_ended(following.state, deps)) if isinstance(following, ToolsRan) else following
    if pending := pending_verdicts(state):
        return (yield from emit_verdict(pending[0], state, deps))
    if ending is not None:
        left = output_shields_left(state, deps.config.output_shields)
        return (yield from judge_output(left, ending, deps)) if left else ending
    return (yield from _infer(state, deps))


def ending_of(state: TurnState, deps: EngineDeps) -> Ending | None:
    """Return the turn's outcome, None if there is more to infer or to run. All its steps are stored."""
    model_and_tool_steps = [step for step in state.turn.steps if isinstance(step, InferenceStep | ToolExecutionStep)]
    answer = next(
        (step.model_response for step in reversed(model_and_tool_steps) if isinstance(step, InferenceStep)), None
    )
    if answer is None:
        return None
    is_cut_off = answer.stop_reason == "out_of_tokens"
    is_spent = output_tokens_left(state) == 0
    is_last = is_spent or state.inference_count >= deps.config.max_infer_iters
    calls = unanswered_calls(state)
    plan = plan_tools(calls, state, deps.offer)
    is_newest = isinstance(model_and_tool_steps[-1], InferenceStep)
    if is_newest and (not answer.tool_calls or is_cut_off or (is_last and not runs_last_calls(state, plan))):
        is_short = is_cut_off or (is_spent and bool(answer.tool_calls))
        stop_reason: StopReason = "out_of_tokens" if is_short else "end_of_turn"
        return Finish(state, output_of(state, answer, stop_reason), unpublished=())
    if not calls:
        is_continued = not is_last and any(trace.heartbeat for trace in state.traces[first_after_inference(state) :])
        if state.policy.ends_after == "answer" or is_continued:
            return None
        return Finish(state, output_of(state, answer, "end_of_turn"), unpublished=())
    if plan.ours:
        return None
    output = CompletionMessage(content=answer.content, stop_reason="end_of_message", tool_calls=plan.left_of(calls))
    if state.policy.at_client_calls == "end":
        return Finish(state, output, unpublished=())
    return AwaitClientTools(state, output, unpublished=())


def _infer(state: TurnState, deps: EngineDeps) -> Move:
    refuse_over_limit(state, deps.max_turn_tokens)
    step_id = deps.ids.new_id()
    started_at = state.next_moment(deps.clock.now())
    yield StepStarted(step_type="inference", step_id=step_id)
    deltas = 0
    answer: Inferred | None = None
    request = build_request(state, deps)
    kept: list[Chunk] | None = [] if state.keeps_details else None
    for chunk in deps.inference.stream(request):
        match chunk:
            case TextChunk(text):
                deltas += 1
                yield StepProgressed(step_type="inference", step_id=step_id, delta=TextDelta(text=text))
            case TextChunks(texts):
                deltas += len(texts)
                yield TextsProgressed(step_id, texts)
            case Inferred():
                answer = chunk
            case _ if kept is not None:
                yield StepDetailed(step_id, chunk)
        if kept is not None and not isinstance(chunk, Inferred | TextChunks):
            kept.append(chunk)
    assert answer is not None, "an Inference ends with Inferred"  # noqa: S101 - the port's promise
    answer = answer._replace(message=counted_calls(state, answer.message))
    for call in answer.message.tool_calls:
        deltas += 1
        yield StepProgressed(step_type="inference", step_id=step_id, delta=call_delta(call))
    step = InferenceStep.model_construct(
        turn_id=state.turn_id,
        step_id=step_id,
        started_at=started_at,
        completed_at=strictly_after(deps.clock.now(), started_at),
        model_response=answer.message,
        answered_by=_named(answer.answered_by),
    )
    usage = measured(request, answer, deps.history if deps.prompt is None else NO_HISTORY)
    has_alert = is_alert_due(state, deps.history.messages, usage, deps.window_tokens)
    trace = StepTrace.model_construct(deltas=deltas, usage=usage, model=request.model, has_alert=has_alert)
    if kept is not None:
        trace = trace.model_copy(update={"reasoning": answer.reasoning, "cuts": cuts_of(kept, answer)})
    return (yield from _called(state.with_step(step, trace), deps))


def _saved_or_ended(state: TurnState, deps: EngineDeps) -> Move:
    """Store the newest step, unless it ends the run: its outcome is stored by one write with it."""
    if ending := _unjudged_ending(state, deps):
        return replace(ending, unpublished=(step_completed(state.turn.steps[-1]),))
    yield from keep_newest(state, deps)
    return RunAgain(state)


def _unjudged_ending(state: TurnState, deps: EngineDeps) -> Ending | None:
    """Return the run's outcome, None if there is more to do, such as to judge a tool's answer or the output."""
    ending = None if pending_verdicts(state) else ending_of(state, deps)
    return None if ending is None or output_shields_left(state, deps.config.output_shields) else ending


def _called(state: TurnState, deps: EngineDeps) -> Move:
    """Store the newest step, an inference. A pure call with which the run continues comes first, for one write."""
    plan = plan_tools(unanswered_calls(state), state, deps.offer)
    if not plan.is_pure or ending_of(state, deps) is not None:
        return (yield from _saved_or_ended(state, deps))
    events: list[TurnEvent] = [step_completed(state.turn.steps[-1])]
    answering = run_tools(plan, state, deps)
    while True:
        try:
            events.append(next(answering))
        except StopIteration as stop:
            answered: TurnState = stop.value.state
            break
    events.append(step_completed(answered.turn.steps[-1]))
    if ending := _unjudged_ending(answered, deps):
        return replace(ending, unpublished=tuple(events))
    deps.recorder.save_step(state)
    deps.recorder.save_step(answered)
    yield from events
    return RunAgain(answered)


def _named(target: Target | None) -> AnsweredBy | None:
    return None if target is None else AnsweredBy(provider_id=target.provider_id, model=target.model)
