"""GET …/turn/{turn_id}: a turn with every step that has finished."""

from turnstone.domain.turns import Turn
from turnstone.http.routes import Reply, Request, Route, reply


def get_turn(request: Request) -> Reply:
    return reply(request.application.turns.get(request.turn_ref))


ROUTE = Route("GET", "/v1/agents/{agent_id}/session/{session_id}/turn/{turn_id}", get_turn, Turn)
