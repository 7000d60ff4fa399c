"""A stored turn told again, as the events its stream had; a step's deltas come as one."""

from turnstone.domain.content import text_of
from turnstone.domain.errors import NotFound
from turnstone.domain.events import (
    StepProgressed,
    StepStarted,
    TextDelta,
    ToolCallDelta,
    TurnAwaitsInput,
    TurnCompleted,
    TurnEvent,
    TurnFailed,
    TurnStarted,
    call_delta,
    step_completed,
)
from turnstone.domain.turns import Failure, InferenceStep, Step, StepTrace, ToolExecutionStep, TurnState, TurnStatus


def replayed(state: TurnState) -> tuple[TurnEvent, ...]:
    """Return the events of the turn so far, its ending included if it has one."""
    events: list[TurnEvent] = [TurnStarted(turn_id=state.turn_id)]
    for step, trace in zip(state.turn.steps, state.traces, strict=True):
        events += _step(step, trace)
    match state.status:
        case TurnStatus.IN_PROGRESS:
            pass
        case TurnStatus.AWAITING_INPUT:
            events.append(TurnAwaitsInput(turn=state.turn))
        case TurnStatus.COMPLETED:
            events.append(TurnCompleted(turn=state.turn))
        case TurnStatus.FAILED | TurnStatus.EXPIRED | TurnStatus.CANCELLED:
            events.append(told_as_failed(state))
    return tuple(events)


def replayed_before_resume(state: TurnState) -> tuple[TurnEvent, ...]:
    """Return the events of a waiting turn up to where it began to wait."""
    return replayed(state.model_copy(update={"status": TurnStatus.IN_PROGRESS}))


def replayed_since_resume(state: TurnState) -> tuple[TurnEvent, ...]:
    """Return the events of the turn since its client's last answer; all of them if there was none."""
    resumes = [index for index, trace in enumerate(state.traces) if trace.is_from_client]
    if not resumes:
        return replayed(state)
    turn = state.turn.model_copy(update={"steps": state.turn.steps[: resumes[-1]]})
    earlier = state.model_copy(update={"turn": turn, "traces": state.traces[: resumes[-1]]})
    return replayed(state)[len(replayed_before_resume(earlier)) :]


def told_as_failed(state: TurnState) -> TurnFailed:
    """Return the event that tells why the ended turn has no answer."""
    failure = state.failure or Failure(kind="ended", message=f"turn {state.turn_id!r} is {state.status}")
    return TurnFailed(turn_id=state.turn_id, failure=failure)


def told_as_gone(missing: NotFound, turn_id: str) -> TurnFailed:
    """Return the event that tells that the turn was removed."""
    return TurnFailed(turn_id=turn_id, failure=Failure(kind="gone", message=f"turn {turn_id!r} is gone: {missing}"))


def _step(step: Step, trace: StepTrace) -> list[TurnEvent]:
    if trace.is_from_client:
        return [step_completed(step)]
    started = StepStarted(step_type=step.step_type, step_id=step.step_id)
    return [started, *_progress(step), step_completed(step)]


def _progress(step: Step) -> list[TurnEvent]:
    deltas: list[TextDelta | ToolCallDelta] = []
    if isinstance(step, InferenceStep):
        text = text_of(step.model_response.content)
        if text:
            deltas.append(TextDelta(text=text))
        deltas += map(call_delta, step.model_response.tool_calls)
    elif isinstance(step, ToolExecutionStep):
        deltas += (ToolCallDelta(tool_call=call, parse_status="in_progress") for call in step.tool_calls)
    return [StepProgressed(step_type=step.step_type, step_id=step.step_id, delta=delta) for delta in deltas]
