"""POST /agents/turn/get: a turn with every finished step, as clients of September 2024 request it."""

from turnstone.dialects.llama_stack_2024.read_requests import TurnNamed
from turnstone.dialects.llama_stack_2024.replies import Turn2024, turn_wire
from turnstone.domain.errors import NotFound
from turnstone.domain.turns.turns import TurnStatus
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LLAMA_STACK_2024
from turnstone.http.replies import Reply, restored
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def read_turn(request: Request) -> Reply:
    query = parse(request, TurnNamed)
    reader = request.use_cases.reader
    ref = query.ref(request.caller.tenant)
    read = reader.read(request.caller, ref) if ref else reader.search(request.caller, query.agent_id, query.turn_id)
    reply = Reply(turn_wire(read.turn), headers={"x-turn-status": read.state.status.value})
    return restored(reply, read.restore)


ROUTE = Route(
    "POST",
    "/agents/turn/get",
    read_turn,
    Turn2024,
    TurnNamed,
    headers={"x-turn-status": TurnStatus},
    raises=(NotFound,),
    stores=False,
    dialect=LLAMA_STACK_2024,
)
handler = LambdaHandler(__name__, ROUTE, loads="reader")
