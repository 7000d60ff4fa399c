"""GET /agents/turn/get: a turn with every finished step, by the ids in the query."""

from turnstone.dialects.llama_stack_2024.read_requests import TurnNamed
from turnstone.dialects.llama_stack_2024.replies import Turn2024, turn_wire
from turnstone.dialects.llama_stack_2024.requests import named_in_query, query_of
from turnstone.domain.errors import NotFound, StoreUnavailable
from turnstone.domain.turns.turns import TurnStatus
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LLAMA_STACK_2024
from turnstone.http.replies import Reply, restored
from turnstone.http.request import Request, checked
from turnstone.http.route import Route


def get_turn(request: Request) -> Reply:
    query = checked(named_in_query(request.query, *QUERY), TurnNamed)
    reader = request.use_cases.reader
    ref = query.ref(request.caller.tenant)
    read = reader.read(request.caller, ref) if ref else reader.search(request.caller, query.agent_id, query.turn_id)
    reply = Reply(turn_wire(read.turn), headers={"x-turn-status": read.state.status.value})
    return restored(reply, read.restore)


QUERY = query_of("agent_id", "turn_id", optional=("session_id",))
ROUTE = Route(
    "GET",
    "/agents/turn/get",
    get_turn,
    Turn2024,
    query=QUERY,
    headers={"x-turn-status": TurnStatus},
    raises=(NotFound, StoreUnavailable),
    dialect=LLAMA_STACK_2024,
)
handler = LambdaHandler(__name__, ROUTE, loads="reader")
