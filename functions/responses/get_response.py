"""GET /v1/openai/v1/responses/{response_id}: a response, running or ended."""

from turnstone.dialects.openai.responses.replies import ResponseObject
from turnstone.dialects.openai.responses.shown import ShownResponse
from turnstone.dialects.openai.responses.stream import whole
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import RESPONSES
from turnstone.http.replies import FileReply, json_reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_response(request: Request) -> FileReply:
    responses = request.use_cases.responses
    stored = responses.read(request.caller, request.path_params["response_id"])
    return json_reply(whole(ShownResponse(stored.ref, stored.sent), stored.state, responses.events_of))


PATH = "/v1/openai/v1/responses/{response_id}"
ROUTE = Route("GET", PATH, get_response, ResponseObject, dialect=RESPONSES, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="responses")
