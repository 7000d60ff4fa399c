"""GET …/turn/{turn_id}: a turn with every step that has finished; the header `x-turn-status` says where it stands."""

from turnstone.domain.turns import Turn
from turnstone.http.routes import Reply, Request, Route, reply


def get_turn(request: Request) -> Reply:
    state = request.application.turns.read(request.turn_ref)
    return reply(state.turn, x_turn_status=state.status.value)


ROUTE = Route("GET", "/v1/agents/{agent_id}/session/{session_id}/turn/{turn_id}", get_turn, Turn)
