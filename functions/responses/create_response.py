"""POST /v1/openai/v1/responses: start a response; stream it, or answer once it ends."""

from turnstone.dialects.openai.responses.replies import ResponseEvent, ResponseObject
from turnstone.dialects.openai.responses.requests import CreateResponse
from turnstone.dialects.openai.responses.shown import ShownResponse
from turnstone.dialects.openai.responses.stream import ResponseStream, encoder_of
from turnstone.domain.turns.turns import TurnStatus
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import RESPONSES
from turnstone.http.replies import TurnReply, TurnStreamReply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def create_response(request: Request) -> TurnReply | TurnStreamReply:
    body = parse(request, CreateResponse)
    responses = request.use_cases.responses
    broadcast, sent = responses.start(request.caller, body.to_new(), request.attempt)
    shown = ShownResponse(broadcast.ref, sent, responses.image_at(broadcast.ref))
    if body.stream:
        return TurnStreamReply(broadcast, ResponseStream(shown))
    encode = encoder_of(shown, responses.events_of)
    return TurnReply(broadcast, encode, shows_failures=True, dialect=RESPONSES)


ROUTE = Route(
    "POST",
    "/v1/openai/v1/responses",
    create_response,
    ResponseObject,
    CreateResponse,
    headers={"x-turn-status": TurnStatus},
    chunk=ResponseEvent,
    dialect=RESPONSES,
)
handler = LambdaHandler(__name__, ROUTE, loads=("responses", "turns"))
