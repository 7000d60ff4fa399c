"""Replay of a stored turn as the events of its stream; a step's deltas come as one."""

from turnstone.domain.errors import ContentLost, NotFound
from turnstone.domain.turns.events import (
    Numbered,
    StepProgressed,
    StepStarted,
    TextDelta,
    ToolCallDelta,
    TurnEvent,
    TurnFailed,
    TurnStarted,
    call_delta,
    step_completed,
    turn_awaits_input,
    turn_completed,
)
from turnstone.domain.turns.failures import Failure
from turnstone.domain.turns.turns import (
    UNANSWERED,
    InferenceStep,
    Step,
    StepTrace,
    ToolExecutionStep,
    TurnState,
    TurnStatus,
)
from turnstone.domain.values.content import text_of


def replayed(state: TurnState) -> tuple[TurnEvent, ...]:
    """Return the events of the turn so far, its ending included if it has one."""
    return tuple(each.event for each in numbered(state))


def numbered(state: TurnState) -> tuple[Numbered, ...]:
    """Return the events of the turn so far, its ending included if it has one, with their numbers."""
    events = [Numbered(TurnStarted(turn_id=state.turn_id), 1)]
    for step, trace in zip(state.turn.steps, state.traces, strict=True):
        events += _step(step, trace, events[-1].number or 0)
    next_number = (events[-1].number or 0) + 1
    match state.status:
        case TurnStatus.IN_PROGRESS:
            pass
        case TurnStatus.AWAITING_INPUT:
            events.append(Numbered(turn_awaits_input(state), next_number))
        case TurnStatus.COMPLETED if state.is_lost:
            events.append(Numbered(failed_event(state), next_number))
        case TurnStatus.COMPLETED:
            events.append(Numbered(turn_completed(state), next_number))
        case TurnStatus.FAILED | TurnStatus.EXPIRED | TurnStatus.CANCELLED:
            events.append(Numbered(failed_event(state), next_number))
    return tuple(events)


def events_before_resume(state: TurnState) -> tuple[Numbered, ...]:
    """Return the events of a waiting turn before its pause."""
    return numbered(state.model_copy(update={"status": TurnStatus.IN_PROGRESS}))


def doubtful_after(state: TurnState) -> int | None:
    """Return the last event number that every subscriber can rely on, None if all of them.

    After a crash, later deltas may have been sent but never stored; their numbers were used again.
    """
    stored = len(state.turn.steps)
    is_without_answer = state.status in (TurnStatus.FAILED, TurnStatus.EXPIRED, TurnStatus.CANCELLED)
    steps = state.steps_at_first_takeover if state.steps_at_first_takeover is not None else stored
    if state.steps_at_first_takeover is None and not is_without_answer:
        return None
    turn = state.turn.model_copy(update={"steps": state.turn.steps[:steps]})
    stored_state = state.model_copy(update={"turn": turn, "traces": state.traces[:steps]})
    return events_before_resume(stored_state)[-1].number


def replayed_since_resume(state: TurnState) -> tuple[TurnEvent, ...]:
    """Return the events of the turn since its client's last answer; all of them if there was none."""
    resumes = [index for index, trace in enumerate(state.traces) if trace.is_from_client]
    if not resumes:
        return replayed(state)
    turn = state.turn.model_copy(update={"steps": state.turn.steps[: resumes[-1]]})
    earlier = state.model_copy(update={"turn": turn, "traces": state.traces[: resumes[-1]]})
    return replayed(state)[len(events_before_resume(earlier)) :]


def failed_event(state: TurnState) -> TurnFailed:
    """Return the event with the reason why the ended turn has no answer."""
    if state.is_lost and state.failure is None:
        message = str(ContentLost("turn", state.turn_id))
        return TurnFailed(turn_id=state.turn_id, failure=Failure(kind="content_lost", message=message), state=state)
    failure = state.failure or Failure(kind="ended", message=f"turn {state.turn_id!r} is {state.status}")
    return TurnFailed(turn_id=state.turn_id, failure=failure, status=UNANSWERED.get(state.status), state=state)


def gone_event(missing: NotFound, turn_id: str) -> TurnFailed:
    """Return the event of a turn that was deleted."""
    return TurnFailed(turn_id=turn_id, failure=Failure(kind="gone", message=f"turn {turn_id!r} was deleted: {missing}"))


def lost_event(turn_id: str) -> TurnFailed:
    """Return the event of a turn that this process can't follow because of an internal error."""
    message = f"turn {turn_id!r} can't be followed because of an internal error; read it to see how it continues"
    return TurnFailed(turn_id=turn_id, failure=Failure(kind="internal", message=message))


def _step(step: Step, trace: StepTrace, last: int) -> list[Numbered]:
    """Return the events of a step, numbered after `last`."""
    if trace.is_from_client:
        return [Numbered(step_completed(step), last + 2)]  # the event that the turn awaits input has a number, too
    start = last + 1
    deltas = _deltas(step)
    end = start + max(trace.deltas, len(deltas))
    progress = [StepProgressed(step_type=step.step_type, step_id=step.step_id, delta=delta) for delta in deltas]
    numbers = range(end - len(progress) + 1, end + 1)
    progressed = [Numbered(event, number) for event, number in zip(progress, numbers, strict=True)]
    if progressed:
        progressed[0] = progressed[0]._replace(first=start + 1)
    metadata = {} if trace.touchpoint is None else {"touchpoint": trace.touchpoint}
    started = StepStarted(step_type=step.step_type, step_id=step.step_id, metadata=metadata)
    return [Numbered(started, start), *progressed, Numbered(step_completed(step), end + 1)]


def _deltas(step: Step) -> list[TextDelta | ToolCallDelta]:
    """Return the step's deltas, those of its text as one, which comes first."""
    deltas: list[TextDelta | ToolCallDelta] = []
    if isinstance(step, InferenceStep):
        text = text_of(step.model_response.content)
        if text:
            deltas.append(TextDelta(text=text))
        deltas += map(call_delta, step.model_response.tool_calls)
    elif isinstance(step, ToolExecutionStep):
        deltas += (ToolCallDelta(tool_call=call, parse_status="in_progress") for call in step.tool_calls)
    return deltas
