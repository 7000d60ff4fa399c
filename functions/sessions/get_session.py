"""GET /v1/agents/{agent_id}/session/{session_id}: a session with its turns, or with those named by `turn_ids`."""

from turnstone.dialects.llama_stack.replies import SessionWithTurns, session_frame
from turnstone.dialects.llama_stack.requests import wanted_turn_ids
from turnstone.http.routes import PiecesReply, Request, Route, joined


def get_session(request: Request) -> PiecesReply:
    turn_ids = wanted_turn_ids(request.query.get("turn_ids"), request.body)
    session, turns = request.application.sessions.read(request.session_ref, turn_ids)
    head, tail = session_frame(session)
    return PiecesReply(joined(head, turns, tail))


ROUTE = Route("GET", "/v1/agents/{agent_id}/session/{session_id}", get_session, SessionWithTurns)
