"""Every transition of a turn as a change, committed in one write over turn and header. Pure: no clock, no store."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from turnstone.domain.errors import CallsMismatch, TurnNotAwaiting
from turnstone.domain.messages.messages import CompletionMessage
from turnstone.domain.sessions.context import Segment, appended, entry_of, without_entry
from turnstone.domain.sessions.sessions import Session
from turnstone.domain.tools.tools import ToolCall, ToolResponse
from turnstone.domain.turns.failures import Failure
from turnstone.domain.turns.turns import (
    InferenceStep,
    ShieldCallStep,
    StepTrace,
    ToolExecutionStep,
    TurnState,
    TurnStatus,
    silent_output,
)
from turnstone.domain.values.moments import strictly_after
from turnstone.store.sessions.turns import Change


def opened(session: Session, new: TurnState, lease_until: datetime, request: str) -> Change:
    """Return the change by which a new turn takes the session's lock."""
    lock = session.lock.taken(new.order, lease_until)
    changes = {"lock": lock, "last_order": new.order, "last_request": request}
    return Change(session.model_copy(update=changes), (new,))


def queued(session: Session, new: TurnState, request: str) -> Change:
    """Return the change by which a new turn takes the session's lock without a process that runs it."""
    changes = {"lock": session.lock.queued(new.order), "last_order": new.order, "last_request": request}
    return Change(session.model_copy(update=changes), (new,))


def claimed(session: Session, lease_until: datetime) -> Change:
    """Return the change by which this process begins to run the queued turn; the turn itself stays as it is."""
    lock = session.lock.taken(str(session.lock.order), lease_until)
    return Change(session.model_copy(update={"lock": lock}), ())


def superseding(opening: Change, ending: Change) -> Change:
    """Return the change that ends the turn that held the lock and opens the new one, in one write."""
    charged = {"spent": ending.session.spent, "token_factor": ending.session.token_factor}
    opening = opening._replace(session=opening.session.model_copy(update=charged), has_spent=ending.has_spent)
    return opening._replace(turns=(*ending.turns, *opening.turns), segments=ending.segments)


def paused(session: Session, state: TurnState, output: CompletionMessage, await_until: datetime) -> Change:
    """Return the change after which the turn waits for its client's answers to the calls of the output message."""
    turn = state.turn.model_copy(update={"output_message": output})
    waiting = {"turn": turn, "status": TurnStatus.AWAITING_INPUT, "pending_calls": output.tool_calls}
    lock = session.lock.awaiting(await_until)
    return Change(session.model_copy(update={"lock": lock}), (state.model_copy(update=waiting),))


class Answered(NamedTuple):
    """A client's answers as they are stored.

    Attributes:
        input_shields: the shields that judge them before the model sees them.
        request: the fingerprint of the request that brought them.
    """

    step: ToolExecutionStep
    input_shields: tuple[str, ...]
    request: str


def resumed(session: Session, state: TurnState, answered: Answered, lease_until: datetime) -> Change:
    """Return the change that stores the client's answers and takes the lock again."""
    heartbeat = state.policy.continues_after_any(answered.step.tool_calls, answered.step.tool_responses)
    trace = StepTrace(is_from_client=True, heartbeat=heartbeat, input_shields=answered.input_shields)
    with_answers = state.with_step(answered.step, trace)
    turn = with_answers.turn.model_copy(update={"output_message": silent_output()})
    continued = with_answers.model_copy(update={"turn": turn, "status": TurnStatus.IN_PROGRESS, "pending_calls": ()})
    lock = session.lock.taken(state.order, lease_until, _reopened(state))
    return Change(session.model_copy(update={"lock": lock, "last_request": answered.request}), (continued,))


def reopened(
    session: Session, state: TurnState, answered: Answered, lease_until: datetime, segments: Sequence[Segment]
) -> Change:
    """Return the change that stores the client's answers to calls that it read out of a completed turn's answer.

    The turn leaves the log of ended turns in the same write, and returns to it at its next end.
    """
    change = resumed(session, state.reopened(), answered, lease_until)
    return change._replace(segments=without_entry(segments, state.order))


def taken_over(session: Session, state: TurnState, lease_until: datetime) -> Change:
    """Return the change by which this process takes over a turn whose process is gone."""
    lock = session.lock.taken(state.order, lease_until, _reopened(state))
    steps = len(state.turn.steps)
    first = state.steps_at_first_takeover
    taken = {
        "takeovers": state.takeovers_in_vain + 1,
        "steps_at_takeover": steps,
        "steps_at_first_takeover": steps if first is None else first,
    }
    continued = state.model_copy(update=taken)
    return Change(session.model_copy(update={"lock": lock}), (continued,))


def closed(session: Session, ended: TurnState, open_segment: Segment) -> Change:
    """Return the change that stores the ended turn, frees the lock and adds the turn to the context of later ones."""
    spent, at = ended.uncharged, ended.last_moment
    charged = session.charged(spent, at, ended.token_factor(session.token_factor))
    released = charged.used(at).model_copy(update={"lock": session.lock.released()})
    segments = appended(open_segment, entry_of(ended), ended.summary)
    return Change(released, (ended,), segments, has_spent=bool(spent))


def _reopened(state: TurnState) -> int:
    return state.earlier_ends.times if state.earlier_ends else 0


def ended_unanswered(state: TurnState, status: TurnStatus, now: datetime) -> TurnState:
    """Return the state of a turn that its run did not end."""
    reasons = {
        TurnStatus.EXPIRED: "its tool responses did not come before the deadline",
        TurnStatus.CANCELLED: "a new turn replaced it",
        TurnStatus.FAILED: "the process that ran it has ended",
    }
    return _unanswered(state, status, reasons[status], now)


def cancelled(state: TurnState, now: datetime) -> TurnState:
    """Return the state of a cancelled turn; its finished steps stay."""
    return _unanswered(state, TurnStatus.CANCELLED, "a client or an operator cancelled it", now)


def _unanswered(state: TurnState, status: TurnStatus, reason: str, now: datetime) -> TurnState:
    if state.is_lost:
        reason = "its stored content is lost"
    failure = Failure(kind="ended", message=f"turn {state.turn_id!r} is {status}: {reason}")
    return state.ended_unanswered(status, failure, now)


def answered_by_client(
    state: TurnState, responses: Sequence[ToolResponse], step_id: str, now: datetime
) -> ToolExecutionStep:
    """Return the step that holds the client's answers, in the order of the calls, under the names that were called.

    Raises:
        CallsMismatch: the answers are not exactly those to the pending calls.
    """
    pending = {call.call_id: call for call in state.pending_calls}
    answers = _by_call(responses)
    if unknown := [call_id for call_id in answers if call_id not in pending]:
        raise CallsMismatch(
            f"tool_responses: no pending call has the id {unknown[0]!r}; read the turn for those that are",
            ("tool_responses",),
        )
    if missing := [call_id for call_id in pending if call_id not in answers]:
        raise CallsMismatch(
            f"tool_responses: the pending call {missing[0]!r} is not answered; answer all in one request",
            ("tool_responses",),
        )
    in_order = (answers[call.call_id].model_copy(update={"tool_name": call.tool_name}) for call in state.pending_calls)
    return _client_step(state, state.pending_calls, tuple(in_order), step_id, now)


def answered_in_text(
    state: TurnState, responses: Sequence[ToolResponse], step_id: str, now: datetime
) -> ToolExecutionStep:
    """Return the step that holds the client's answers to calls that it read out of the turn's answer, as it sent them.

    Raises:
        CallsMismatch: there are none, or two to the same call.
    """
    if not _by_call(responses):
        raise CallsMismatch("tool_responses: no call is answered; send at least one response", ("tool_responses",))
    return _client_step(state, (), tuple(responses), step_id, now)


def _by_call(responses: Sequence[ToolResponse]) -> dict[str, ToolResponse]:
    answers = {response.call_id: response for response in responses}
    if len(answers) != len(responses):
        raise CallsMismatch("tool_responses: a call is answered twice; answer each once", ("tool_responses",))
    return answers


def _client_step(
    state: TurnState, calls: tuple[ToolCall, ...], responses: tuple[ToolResponse, ...], step_id: str, now: datetime
) -> ToolExecutionStep:
    started_at = strictly_after(state.last_moment, state.last_moment)
    return ToolExecutionStep(
        turn_id=state.turn_id,
        step_id=step_id,
        started_at=started_at,
        completed_at=strictly_after(now, started_at),
        tool_calls=calls,
        tool_responses=responses,
    )


def refuse_reopening(session: Session, state: TurnState, responses: Sequence[ToolResponse], most: int) -> None:
    """Raise TurnNotAwaiting unless the completed turn can be resumed with these answers to calls in its text.

    It must be the session's newest turn, with an answer of its model that has no tool calls. A response to a call that
    is already answered is a resume sent twice.
    """
    answers = [step.model_response for step in state.turn.steps if isinstance(step, InferenceStep)]
    if state.origin == "responses":
        why = "and can't be resumed: it is a response, which the next response continues"
    elif session.last_order != state.order:
        why = "and can't be resumed: only the newest turn of a session can"
    elif any(isinstance(step, ShieldCallStep) and step.has_stopped for step in state.turn.steps):
        why = "and can't be resumed: a safety check stopped it"
    elif state.turn.output_message.tool_calls:
        why = "and can't be resumed: it ended with calls, whose answers belong to the next turn"
    elif state.turn.output_message.stop_reason != "end_of_turn":
        why = "and can't be resumed: its answer was cut off by the token limit"
    elif not answers or answers[-1].tool_calls:
        why = "and can't be resumed: it reached its limit of inferences with calls unanswered"
    elif again := {call.call_id for answer in answers for call in answer.tool_calls} & {r.call_id for r in responses}:
        why = f"and its call {min(again)!r} is already answered"
    elif len(answers) >= most:
        why = f"and has made {most} inferences, the most that this server allows a turn"
    else:
        return
    raise TurnNotAwaiting(state.turn_id, state.status, why)
