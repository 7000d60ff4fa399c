"""POST /agents/turn/create: start a turn as clients of September 2024 do, or resume one with its tools' messages."""

from turnstone.dialects.llama_stack_2024.replies import Turn2024, state_wire
from turnstone.dialects.llama_stack_2024.stream import TurnChunk2024, TurnStream2024
from turnstone.dialects.llama_stack_2024.turn_requests import CreateTurn2024
from turnstone.domain.errors import NotFound
from turnstone.domain.turns.turns import TurnStatus
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LLAMA_STACK_2024
from turnstone.http.replies import TurnReply, TurnStreamReply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def create_turn(request: Request) -> TurnReply | TurnStreamReply:
    body = parse(request, CreateTurn2024)
    ref = body.ref(request.caller.tenant)
    broadcast = request.use_cases.turns.start(request.caller, ref, body.to_new_turn(), request.attempt)
    return TurnStreamReply(broadcast, TurnStream2024()) if body.stream else TurnReply(broadcast, state_wire)


ROUTE = Route(
    "POST",
    "/agents/turn/create",
    create_turn,
    Turn2024,
    CreateTurn2024,
    headers={"x-turn-status": TurnStatus},
    raises=(NotFound,),
    chunk=TurnChunk2024,
    dialect=LLAMA_STACK_2024,
)
handler = LambdaHandler(__name__, ROUTE, loads="turns")
