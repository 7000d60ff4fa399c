"""POST /v1/openai/v1/responses: start a response; stream it, answer once it ends, or at once if it is queued."""

from turnstone.dialects.openai.responses.replies import ResponseEvent, ResponseObject
from turnstone.dialects.openai.responses.requests import CreateResponse
from turnstone.dialects.openai.responses.shown import ShownResponse
from turnstone.dialects.openai.responses.stream import ResponseStream, encoder_of, stored_whole, stream_from
from turnstone.domain.turns.turns import TurnStatus
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import RESPONSES
from turnstone.http.replies import FileReply, TurnReply, TurnStreamReply, json_reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def create_response(request: Request) -> TurnReply | TurnStreamReply | FileReply:
    body, responses = parse(request, CreateResponse), request.use_cases.responses
    new = body.to_new(responses.turns_seen_by(request.caller), responses.events_of, is_approved=request.is_llama_stacks)
    if body.background:
        stored = responses.start_in_background(request.caller, new, request.attempt)
        if not body.stream:
            return json_reply(stored_whole(stored, responses.events_of, responses.image_at))
        return TurnStreamReply(responses.follow(stored), stream_from(stored, responses.image_at), is_cursor=True)
    broadcast, sent = responses.start(request.caller, new, request.attempt)
    shown = ShownResponse(broadcast.ref, sent, responses.image_at(broadcast.ref))
    if body.stream:
        return TurnStreamReply(broadcast, ResponseStream(shown))
    return TurnReply(broadcast, encoder_of(shown, responses.events_of), shows_failures=True, dialect=RESPONSES)


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
handler = LambdaHandler(__name__, ROUTE, loads=("responses", "turns", "events"))
