"""The turn loop. One call of `advance` makes the next move of a turn: ask the model, or run the tools it called.

It is a generator of what happens, and returns what to do next. Nothing here knows who listens, whether the turn was
resumed, or where it is stored: pausing is a value, resuming is a call with the state that was stored.
"""

from collections.abc import Generator

from turnstone.domain.context import unanswered_calls
from turnstone.domain.events import (
    StepProgressed,
    StepStarted,
    TextDelta,
    TurnEvent,
    call_delta,
    step_completed,
)
from turnstone.domain.messages import CompletionMessage
from turnstone.domain.routing import Target
from turnstone.domain.turns import AnsweredBy, InferenceStep, StepTrace, TurnState
from turnstone.engine.measuring import measured, refuse_over_limit
from turnstone.engine.prompt import build_request
from turnstone.engine.steps import AwaitClientTools, EngineDeps, Finish, NextStep, RunAgain
from turnstone.engine.tool_plan import ToolPlan, plan_tools
from turnstone.engine.tools import run_tools
from turnstone.ports import Inferred, TextChunk

Move = Generator[TurnEvent, None, NextStep]


def advance(state: TurnState, deps: EngineDeps) -> Move:
    """Make the turn's next move.

    Raises ModelError, TurnLimitReached, LeaseLost and StoreUnavailable; everything else is a value.
    """
    calls = unanswered_calls(state.turn)
    if not calls:
        return (yield from _infer(state, deps))
    plan = plan_tools(calls, deps.offer)
    if plan.ours:
        return (yield from run_tools(plan, state, deps))
    return _await_client(state, plan, is_saved=True)


def _infer(state: TurnState, deps: EngineDeps) -> Move:
    refuse_over_limit(state, deps.max_turn_tokens)
    step_id = deps.ids.new_id()
    started_at = deps.clock.now()
    yield StepStarted(step_type="inference", step_id=step_id)
    deltas = 0
    answer: Inferred | None = None
    request = build_request(state, deps)
    for chunk in deps.inference.stream(request):
        match chunk:
            case TextChunk(text):
                deltas += 1
                yield StepProgressed(step_type="inference", step_id=step_id, delta=TextDelta(text=text))
            case Inferred():
                answer = chunk
    assert answer is not None, "an Inference ends with Inferred"  # noqa: S101 - the port's promise
    for call in answer.message.tool_calls:
        deltas += 1
        yield StepProgressed(step_type="inference", step_id=step_id, delta=call_delta(call))
    step = InferenceStep(
        turn_id=state.turn_id,
        step_id=step_id,
        started_at=started_at,
        completed_at=deps.clock.now(),
        model_response=answer.message,
        answered_by=_named(answer.answered_by),
    )
    trace = StepTrace(deltas=deltas, usage=measured(request, answer), model=request.model)
    inferred = state.with_step(step, trace)
    plan = plan_tools(answer.message.tool_calls, deps.offer)
    following = _after_inference(inferred, answer.message, plan, deps.config.max_infer_iters)
    if isinstance(following, RunAgain):
        deps.recorder.save_step(inferred)
        yield step_completed(step)
    return following


def _named(target: Target | None) -> AnsweredBy | None:
    return None if target is None else AnsweredBy(provider_id=target.provider_id, model=target.model)


def _after_inference(state: TurnState, answer: CompletionMessage, plan: ToolPlan, max_infer_iters: int) -> NextStep:
    is_cut_off = answer.stop_reason == "out_of_tokens"
    is_last = state.inference_count >= max_infer_iters
    if not answer.tool_calls or is_cut_off or is_last:
        stop_reason = "out_of_tokens" if is_cut_off else "end_of_turn"
        output = answer.model_copy(update={"tool_calls": (), "stop_reason": stop_reason})
        return Finish(state, output, unsaved=state.turn.steps[-1])
    if plan.ours:
        return RunAgain(state)
    return _await_client(state, plan, is_saved=False)


def _await_client(state: TurnState, plan: ToolPlan, *, is_saved: bool) -> AwaitClientTools:
    said = next(s.model_response.content for s in reversed(state.turn.steps) if isinstance(s, InferenceStep))
    output = CompletionMessage(content=said, stop_reason="end_of_message", tool_calls=plan.client)
    return AwaitClientTools(state, output, unsaved=None if is_saved else state.turn.steps[-1])
