"""Events for webhooks, made of the stored transitions of turns and of responses that run in the background."""

from hashlib import sha256

from turnstone.domain.refs import SessionRef
from turnstone.domain.responses.addresses import response_id
from turnstone.domain.responses.statuses import ResponseStatus, status_of
from turnstone.domain.turns.turns import TurnState, TurnStatus
from turnstone.domain.webhooks.webhooks import EventType, WebhookEvent

OF_TURNS: dict[TurnStatus, EventType] = {
    TurnStatus.AWAITING_INPUT: "turn.awaiting_input",
    TurnStatus.COMPLETED: "turn.completed",
    TurnStatus.FAILED: "turn.failed",
    TurnStatus.EXPIRED: "turn.expired",
}
OF_RESPONSES: dict[ResponseStatus, EventType] = {
    "completed": "response.completed",
    "failed": "response.failed",
    "cancelled": "response.cancelled",
    "incomplete": "response.incomplete",
}


def event_of(ref: SessionRef, state: TurnState) -> WebhookEvent | None:
    """Return the event of the turn's new state, as it is about to be stored; None if that is none.

    A state has one event: its id follows from the turn and its revision. The caller of a response that does not run in
    the background has its end already, so that is no event.
    """
    is_response = state.origin == "responses"
    if is_response and not state.runs_in_background:
        return None
    event_type = OF_RESPONSES.get(status_of(state)) if is_response else OF_TURNS.get(state.status)
    if event_type is None:
        return None
    identity = "|".join((ref.tenant, ref.agent_id, ref.session_id, state.turn_id, event_type, str(state.rev)))
    ids = {"agent_id": ref.agent_id, "session_id": ref.session_id, "turn_id": state.turn_id}
    return WebhookEvent(
        event_id=f"evt_{sha256(identity.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}",
        event_type=event_type,
        created_at=state.last_moment,
        data={"id": response_id(ref.turn(state.turn_id))} if is_response else ids,
        agent_id=ref.agent_id,
        session_id=ref.session_id,
        turn_id=state.turn_id if is_response else "",
    )
