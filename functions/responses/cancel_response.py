"""POST /v1/openai/v1/responses/{response_id}/cancel: cancel a response that runs in the background."""

from turnstone.dialects.openai.responses.replies import ResponseObject
from turnstone.dialects.openai.responses.stream import stored_whole
from turnstone.domain.errors import InvalidRequest
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import RESPONSES
from turnstone.http.replies import FileReply, json_reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def cancel_response(request: Request) -> FileReply:
    responses = request.use_cases.responses
    stored = responses.cancel(request.caller, request.path_params["response_id"], request.attempt)
    return json_reply(stored_whole(stored, responses.events_of, responses.image_at))


PATH = "/v1/openai/v1/responses/{response_id}/cancel"
ROUTE = Route("POST", PATH, cancel_response, ResponseObject, raises=(InvalidRequest,), dialect=RESPONSES)
handler = LambdaHandler(__name__, ROUTE, loads=("responses", "cancelling"))
