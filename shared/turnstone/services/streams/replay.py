"""Replay of a stored turn as the events of its stream.

A step's deltas come as one, or with the details of the step: then they are cut as they were, if the turn keeps that.
"""

from turnstone.domain.errors import ContentLost, NotFound
from turnstone.domain.models.requests import ReasoningChunk, TextChunk, call_pieces
from turnstone.domain.turns.cuts import cut_again
from turnstone.domain.turns.events import (
    Numbered,
    StepDetailed,
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
    """Return the events of the turn so far, its ending included if it has one; with details if the turn keeps them."""
    return tuple(each.event for each in numbered(state, is_detailed=state.keeps_details))


def numbered(state: TurnState, *, is_detailed: bool = False) -> tuple[Numbered, ...]:
    """Return the events of the turn so far, its ending included if it has one, with their numbers.

    With `is_detailed` they include the reasoning and the calls of each inference, and are cut as they were streamed; as
    one delta each, where the turn does not keep that.
    """
    events = [Numbered(TurnStarted(turn_id=state.turn_id), 1)]
    for step, trace in zip(state.turn.steps, state.traces, strict=True):
        events += _step(step, trace, events[-1].number or 0, is_detailed=is_detailed)
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


def events_before_resume(state: TurnState, *, is_detailed: bool = False) -> tuple[Numbered, ...]:
    """Return the events of a waiting turn before its pause; for `is_detailed` see `numbered`."""
    return numbered(state.model_copy(update={"status": TurnStatus.IN_PROGRESS}), is_detailed=is_detailed)


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
    return replayed(state)[len(events_before_resume(earlier, is_detailed=state.keeps_details)) :]


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


def _step(step: Step, trace: StepTrace, last: int, *, is_detailed: bool) -> list[Numbered]:
    """Return the events of a step, numbered after `last`."""
    if trace.is_from_client:
        return [Numbered(step_completed(step), last + 2)]  # the event that the turn awaits input has a number, too
    start = last + 1
    progressed = _progressed(step, trace, start)
    if is_detailed and isinstance(step, InferenceStep):
        progressed = _as_cut(step, trace, start) or _with_details(step, trace, progressed)
    end = start + max(trace.deltas, sum(each.number is not None for each in progressed))
    metadata = {} if trace.touchpoint is None else {"touchpoint": trace.touchpoint}
    started = StepStarted(step_type=step.step_type, step_id=step.step_id, metadata=metadata)
    return [Numbered(started, start), *progressed, Numbered(step_completed(step), end + 1)]


def _progressed(step: Step, trace: StepTrace, start: int) -> list[Numbered]:
    """Return the step's deltas, those of its text as one; the first one spans the numbers of all that it combines."""
    progress = [_progress(step, delta) for delta in _deltas(step)]
    end = start + max(trace.deltas, len(progress))
    numbers = range(end - len(progress) + 1, end + 1)
    progressed = [Numbered(event, number) for event, number in zip(progress, numbers, strict=True)]
    if progressed:
        progressed[0] = progressed[0]._replace(first=start + 1)
    return progressed


def _as_cut(step: InferenceStep, trace: StepTrace, start: int) -> list[Numbered] | None:
    """Return the step's deltas and details as they were streamed, None if the turn does not keep that."""
    answer = step.model_response
    if trace.cuts is None:
        return None
    try:
        chunks = cut_again(trace.cuts, text_of(answer.content), trace.reasoning, answer.tool_calls)
    except ValueError:
        return None
    progressed: list[Numbered] = []
    number = start
    for chunk in chunks:
        if isinstance(chunk, TextChunk):
            number += 1
            progressed.append(Numbered(_progress(step, TextDelta(text=chunk.text)), number))
        else:
            progressed.append(Numbered(StepDetailed(step.step_id, chunk), None))
    calls = (_progress(step, call_delta(call)) for call in answer.tool_calls)
    return [*progressed, *(Numbered(event, number) for number, event in enumerate(calls, number + 1))]


def _with_details(step: InferenceStep, trace: StepTrace, progressed: list[Numbered]) -> list[Numbered]:
    """Return the step's deltas with its details, each as one: reasoning, text, calls."""
    texts = len(progressed) - len(step.model_response.tool_calls)
    reasoning = [ReasoningChunk(trace.reasoning)] if trace.reasoning else []
    return [
        *(Numbered(StepDetailed(step.step_id, piece), None) for piece in reasoning),
        *progressed[:texts],
        *(Numbered(StepDetailed(step.step_id, piece), None) for piece in call_pieces(step.model_response.tool_calls)),
        *progressed[texts:],
    ]


def _progress(step: Step, delta: TextDelta | ToolCallDelta) -> StepProgressed:
    return StepProgressed(step_type=step.step_type, step_id=step.step_id, delta=delta)


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
