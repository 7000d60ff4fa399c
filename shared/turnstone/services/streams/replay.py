"""A stored turn told again, as the events its stream had; a step's deltas come as one."""

from turnstone.domain.errors import ContentLost, NotFound
from turnstone.domain.turns.events import (
    Numbered,
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
    return tuple(told.event for told in numbered(state))


def numbered(state: TurnState) -> tuple[Numbered, ...]:
    """Return the events of the turn so far, its ending included if it has one, with their numbers."""
    told = [Numbered(TurnStarted(turn_id=state.turn_id), 1)]
    for step, trace in zip(state.turn.steps, state.traces, strict=True):
        told += _step(step, trace, told[-1].number or 0)
    next_number = (told[-1].number or 0) + 1
    match state.status:
        case TurnStatus.IN_PROGRESS:
            pass
        case TurnStatus.AWAITING_INPUT:
            told.append(Numbered(TurnAwaitsInput(turn=state.turn), next_number))
        case TurnStatus.COMPLETED if state.is_lost:
            told.append(Numbered(told_as_failed(state), next_number))
        case TurnStatus.COMPLETED:
            told.append(Numbered(TurnCompleted(turn=state.turn), next_number))
        case TurnStatus.FAILED | TurnStatus.EXPIRED | TurnStatus.CANCELLED:
            told.append(Numbered(told_as_failed(state), next_number))
    return tuple(told)


def told_before_resume(state: TurnState) -> tuple[Numbered, ...]:
    """Return the events of a waiting turn up to where it began to wait."""
    return numbered(state.model_copy(update={"status": TurnStatus.IN_PROGRESS}))


def doubtful_after(state: TurnState) -> int | None:
    """Return the number up to which those who heard the turn heard what is stored; None if they did to the end.

    A process that is gone may have told more than it stored, and the numbers of that were given once more.
    """
    stored = len(state.turn.steps)
    is_without_answer = state.status in (TurnStatus.FAILED, TurnStatus.EXPIRED, TurnStatus.CANCELLED)
    steps = state.steps_at_first_takeover if state.steps_at_first_takeover is not None else stored
    if state.steps_at_first_takeover is None and not is_without_answer:
        return None
    turn = state.turn.model_copy(update={"steps": state.turn.steps[:steps]})
    known = state.model_copy(update={"turn": turn, "traces": state.traces[:steps]})
    return told_before_resume(known)[-1].number


def replayed_since_resume(state: TurnState) -> tuple[TurnEvent, ...]:
    """Return the events of the turn since its client's last answer; all of them if there was none."""
    resumes = [index for index, trace in enumerate(state.traces) if trace.is_from_client]
    if not resumes:
        return replayed(state)
    turn = state.turn.model_copy(update={"steps": state.turn.steps[: resumes[-1]]})
    earlier = state.model_copy(update={"turn": turn, "traces": state.traces[: resumes[-1]]})
    return replayed(state)[len(told_before_resume(earlier)) :]


def told_as_failed(state: TurnState) -> TurnFailed:
    """Return the event that tells why the ended turn has no answer."""
    if state.is_lost and state.failure is None:
        message = str(ContentLost("turn", state.turn_id))
        return TurnFailed(turn_id=state.turn_id, failure=Failure(kind="content_lost", message=message))
    failure = state.failure or Failure(kind="ended", message=f"turn {state.turn_id!r} is {state.status}")
    return TurnFailed(turn_id=state.turn_id, failure=failure, status=UNANSWERED.get(state.status))


def told_as_gone(missing: NotFound, turn_id: str) -> TurnFailed:
    """Return the event that tells that the turn was removed."""
    return TurnFailed(turn_id=turn_id, failure=Failure(kind="gone", message=f"turn {turn_id!r} was deleted: {missing}"))


def told_as_lost(turn_id: str) -> TurnFailed:
    """Return the event that tells that nobody here can find out how the turn goes on."""
    message = f"turn {turn_id!r} can't be followed because of an internal error; read it to see how it continues"
    return TurnFailed(turn_id=turn_id, failure=Failure(kind="internal", message=message))


def _step(step: Step, trace: StepTrace, last: int) -> list[Numbered]:
    """Return the events of a step that come behind that number."""
    if trace.is_from_client:
        return [Numbered(step_completed(step), last + 2)]  # that the turn awaits input was an event, too
    start = last + 1
    deltas = _deltas(step)
    end = start + max(trace.deltas, len(deltas))
    progress = [StepProgressed(step_type=step.step_type, step_id=step.step_id, delta=delta) for delta in deltas]
    numbers = range(end - len(progress) + 1, end + 1)
    told = [Numbered(event, number) for event, number in zip(progress, numbers, strict=True)]
    if told:
        told[0] = told[0]._replace(first=start + 1)
    metadata = {} if trace.touchpoint is None else {"touchpoint": trace.touchpoint}
    started = StepStarted(step_type=step.step_type, step_id=step.step_id, metadata=metadata)
    return [Numbered(started, start), *told, Numbered(step_completed(step), end + 1)]


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
