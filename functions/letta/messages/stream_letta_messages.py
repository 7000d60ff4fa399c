"""POST /letta/v1/agents/{agent_id}/messages/stream: send messages, and stream the answers."""

from turnstone.dialects.letta.ids import bare
from turnstone.dialects.letta.message_requests import StreamingRequest
from turnstone.dialects.letta.messages import LettaResponse
from turnstone.dialects.letta.turns.stream import LettaEvent, LettaStream
from turnstone.dialects.letta.turns.token_stream import LettaTokenStream
from turnstone.domain.turns.turns import TurnStatus
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import TurnStreamReply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def stream_letta_messages(request: Request) -> TurnStreamReply:
    body = parse(request, StreamingRequest)
    agent_id = bare("agent", request.path_params["agent_id"])
    messages, use = body.to_messages(), request.use_cases.letta_messages
    broadcast = use.send(request.caller, agent_id, messages, request.attempt, keeps_details=body.stream_tokens)
    encoder = LettaTokenStream if body.stream_tokens else LettaStream
    return TurnStreamReply(broadcast, encoder(broadcast.ref.turn_id, len(messages), body.config.answers_by))


PATH = "/letta/v1/agents/{agent_id}/messages/stream"
ROUTE = Route(
    "POST",
    PATH,
    stream_letta_messages,
    LettaResponse,
    StreamingRequest,
    chunk=LettaEvent,
    headers={"x-turn-status": TurnStatus},
    dialect=LETTA,
)
handler = LambdaHandler(__name__, ROUTE, loads=("letta_messages", "turns"))
