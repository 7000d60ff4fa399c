"""GET /v1/openai/v1/responses/{response_id}: a response, running or ended, or its events from a number on."""

from turnstone.dialects.openai.responses.lists import READ_QUERY, stream_in_query
from turnstone.dialects.openai.responses.replies import ResponseEvent, ResponseObject
from turnstone.dialects.openai.responses.shown import ShownResponse
from turnstone.dialects.openai.responses.stream import ResponseStream, whole
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import RESPONSES
from turnstone.http.replies import FileReply, TurnStreamReply, json_reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_response(request: Request) -> FileReply | TurnStreamReply:
    after = stream_in_query(request.query)
    responses, response_id = request.use_cases.responses, request.path_params["response_id"]
    if after is None:
        stored = responses.read(request.caller, response_id)
        shown = ShownResponse(stored.ref, stored.sent, responses.image_at(stored.ref))
        return json_reply(whole(shown, stored.state, responses.events_of))
    broadcast, sent = responses.follow(request.caller, response_id)
    shown = ShownResponse(broadcast.ref, sent, responses.image_at(broadcast.ref))
    return TurnStreamReply(broadcast, ResponseStream(shown, after, lambda: broadcast.doubtful_after), is_cursor=True)


PATH = "/v1/openai/v1/responses/{response_id}"
ROUTE = Route(
    "GET",
    PATH,
    get_response,
    ResponseObject,
    query=READ_QUERY,
    chunk=ResponseEvent,
    dialect=RESPONSES,
    stores=False,
)
handler = LambdaHandler(__name__, ROUTE, loads=("responses", "events"))
