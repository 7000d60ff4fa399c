"""GET …/turn/{turn_id}: a turn with every finished step; headers have its status and the tokens that it spent."""

from turnstone.domain.turns.turns import Turn, TurnStatus
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply, restored
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_turn(request: Request) -> Reply:
    state, restore = request.use_cases.reader.read(request.caller, request.turn_ref)
    spent = sum(tokens.total_tokens for tokens in state.spent.values())
    return restored(reply(state.turn, x_turn_status=state.status.value, x_turn_tokens=str(spent)), restore)


PATH = "/v1/agents/{agent_id}/session/{session_id}/turn/{turn_id}"
ROUTE = Route("GET", PATH, get_turn, Turn, headers={"x-turn-status": TurnStatus, "x-turn-tokens": str})
handler = LambdaHandler(__name__, ROUTE, loads="reader")
