"""DELETE /v1/openai/v1/responses/{response_id}: delete a response; what later ones took over stays."""

from turnstone.dialects.openai.responses.lists import ResponseDeleted
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import RESPONSES
from turnstone.http.replies import FileReply, json_reply, wire_json
from turnstone.http.request import Request
from turnstone.http.route import Route


def delete_response(request: Request) -> FileReply:
    response_id = request.path_params["response_id"]
    request.use_cases.responses.delete(request.caller, response_id)
    return json_reply(wire_json(ResponseDeleted(id=response_id)))


PATH = "/v1/openai/v1/responses/{response_id}"
ROUTE = Route("DELETE", PATH, delete_response, ResponseDeleted, dialect=RESPONSES, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="responses")
