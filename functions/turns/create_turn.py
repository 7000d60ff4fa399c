"""POST /v1/agents/{agent_id}/session/{session_id}/turn: start a turn; stream it, or answer once it ends or pauses."""

from turnstone.dialects.llama_stack.turns.requests import CreateTurn
from turnstone.dialects.llama_stack.turns.stream import TurnStream
from turnstone.domain.turns.turns import Turn, TurnStatus
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import TurnReply, TurnStreamReply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def create_turn(request: Request) -> TurnReply | TurnStreamReply:
    body = parse(request, CreateTurn)
    broadcast = request.use_cases.turns.start(request.caller, request.session_ref, body.to_new_turn(), request.attempt)
    return TurnStreamReply(broadcast, TurnStream()) if body.stream else TurnReply(broadcast)


PATH = "/v1/agents/{agent_id}/session/{session_id}/turn"
ROUTE = Route("POST", PATH, create_turn, Turn, CreateTurn, headers={"x-turn-status": TurnStatus})
handler = LambdaHandler(__name__, ROUTE, loads="turns")
