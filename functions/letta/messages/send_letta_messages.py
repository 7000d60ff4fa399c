"""POST /letta/v1/agents/{agent_id}/messages: send messages to an agent; the answer is sent once its turn ends."""

from turnstone.dialects.letta.ids import bare
from turnstone.dialects.letta.message_requests import LettaRequest
from turnstone.dialects.letta.messages import LettaResponse, response_of
from turnstone.domain.turns.turns import TurnStatus
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import TurnReply, wire_json
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def send_letta_messages(request: Request) -> TurnReply:
    body = parse(request, LettaRequest)
    agent_id = bare("agent", request.path_params["agent_id"])
    messages = request.use_cases.letta_messages
    broadcast = messages.send(request.caller, agent_id, body.to_messages(), request.attempt)
    answers_by = body.config.answers_by
    return TurnReply(broadcast, lambda state: wire_json(response_of(state, answers_by)), dialect=LETTA)


PATH = "/letta/v1/agents/{agent_id}/messages"
ROUTE = Route(
    "POST", PATH, send_letta_messages, LettaResponse, LettaRequest, headers={"x-turn-status": TurnStatus}, dialect=LETTA
)
handler = LambdaHandler(__name__, ROUTE, loads=("letta_messages", "turns"))
