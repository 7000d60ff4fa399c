"""POST …/turn/{turn_id}/cancel: cancel a turn that runs or waits; its finished steps stay."""

from turnstone.domain.turns.turns import Turn, TurnStatus
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def cancel_turn(request: Request) -> Reply:
    state = request.use_cases.cancelling.cancel(request.caller, request.turn_ref, request.attempt)
    return reply(state.turn, x_turn_status=state.status.value)


PATH = "/v1/agents/{agent_id}/session/{session_id}/turn/{turn_id}/cancel"
ROUTE = Route("POST", PATH, cancel_turn, Turn, headers={"x-turn-status": TurnStatus})
handler = LambdaHandler(__name__, ROUTE, loads="cancelling")
