"""POST /v1/agents/{agent_id}/session/{session_id}/turn: start a turn; stream it, or answer once it ends or pauses."""

from turnstone.dialects.llama_stack.turns.replies import AcceptedTurn
from turnstone.dialects.llama_stack.turns.requests import CreateTurn
from turnstone.dialects.llama_stack.turns.stream import TurnStream
from turnstone.domain.turns.turns import Turn, TurnStatus
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.preferences import accepted, prefers_async
from turnstone.http.replies import Reply, TurnReply, TurnStreamReply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route
from turnstone.http.streams.turn_answers import turn_path


def create_turn(request: Request) -> TurnReply | TurnStreamReply | Reply:
    body = parse(request, CreateTurn)
    turns, opening = request.use_cases.turns, (request.caller, request.session_ref, body.to_new_turn(), request.attempt)
    if body.may_run_in_background and prefers_async(request.headers):
        ref, state, is_queued = turns.start_in_background(*opening)
        url = request.base + turn_path(ref)
        turn = AcceptedTurn.of(ref, state.status, url, is_queued=is_queued)
        return accepted(turn, url, x_turn_status=state.status.value)
    broadcast = turns.start(*opening)
    return TurnStreamReply(broadcast, TurnStream()) if body.stream else TurnReply(broadcast)


PATH = "/v1/agents/{agent_id}/session/{session_id}/turn"
HEADERS = {"x-turn-status": TurnStatus}
ROUTE = Route("POST", PATH, create_turn, Turn, CreateTurn, headers=HEADERS, accepted=AcceptedTurn)
handler = LambdaHandler(__name__, ROUTE, loads="turns")
