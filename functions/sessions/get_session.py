"""GET /v1/agents/{agent_id}/session/{session_id}: a session with its turns, or with those named by `turn_ids`."""

from turnstone.dialects.llama_stack.requests import WantedTurns, turn_ids_in_query
from turnstone.dialects.llama_stack.turns.replies import SessionWithTurns, session_head, session_tail
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import PiecesReply, joined
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def get_session(request: Request) -> PiecesReply:
    turn_ids = parse(request, WantedTurns).turn_ids if request.body else None
    if "turn_ids" in request.query:
        turn_ids = turn_ids_in_query(request.query["turn_ids"])
    session, turns = request.use_cases.sessions.read(request.caller, request.session_ref, turn_ids)
    return PiecesReply(joined(session_head(session), iter(turns), lambda: session_tail(session, turns.lost)))


QUERY = {"turn_ids": "Only these turns; repeated, or several of them parted by commas."}
PATH = "/v1/agents/{agent_id}/session/{session_id}"
ROUTE = Route("GET", PATH, get_session, SessionWithTurns, WantedTurns, query=QUERY)
handler = LambdaHandler(__name__, ROUTE, loads="sessions")
