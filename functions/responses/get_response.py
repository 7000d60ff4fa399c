"""GET /v1/openai/v1/responses/{response_id}: a response, running or ended, or its events from a number on."""

from turnstone.dialects.openai.responses.lists import READ_QUERY, stream_in_query
from turnstone.dialects.openai.responses.replies import ResponseEvent, ResponseObject
from turnstone.dialects.openai.responses.stream import stored_whole, stream_from
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import RESPONSES
from turnstone.http.replies import FileReply, TurnStreamReply, json_reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_response(request: Request) -> FileReply | TurnStreamReply:
    after = stream_in_query(request.query)
    responses = request.use_cases.responses
    stored = responses.read(request.caller, request.path_params["response_id"])
    if after is None:
        return json_reply(stored_whole(stored, responses.events_of, responses.image_at))
    broadcast = responses.follow(stored)
    encoder = stream_from(stored, responses.image_at, after, lambda: broadcast.doubtful_after)
    return TurnStreamReply(broadcast, encoder, is_cursor=True)


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
