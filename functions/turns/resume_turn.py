"""POST …/turn/{turn_id}/resume: resume a turn that waits for its client's tool responses."""

from turnstone.dialects.llama_stack.turns.requests import ResumeTurn
from turnstone.dialects.llama_stack.turns.stream import TurnStream
from turnstone.domain.turns.turns import Turn, TurnStatus
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import TurnReply, TurnStreamReply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def resume_turn(request: Request) -> TurnReply | TurnStreamReply:
    body = parse(request, ResumeTurn)
    broadcast = request.use_cases.turns.resume(request.caller, request.turn_ref, body.tool_responses, request.attempt)
    return TurnStreamReply(broadcast, TurnStream()) if body.stream else TurnReply(broadcast)


PATH = "/v1/agents/{agent_id}/session/{session_id}/turn/{turn_id}/resume"
ROUTE = Route("POST", PATH, resume_turn, Turn, ResumeTurn, headers={"x-turn-status": TurnStatus})
handler = LambdaHandler(__name__, ROUTE, loads="turns")
