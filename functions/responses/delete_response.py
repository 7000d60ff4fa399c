"""DELETE /v1/openai/v1/responses/{response_id}: delete a response; what later ones took over stays."""

from turnstone.dialects.openai.responses.lists import ResponseDeleted
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import RESPONSES
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def delete_response(request: Request) -> Reply:
    response_id = request.path_params["response_id"]
    request.use_cases.responses.delete(request.caller, response_id)
    return reply(ResponseDeleted(id=response_id))


PATH = "/v1/openai/v1/responses/{response_id}"
ROUTE = Route("DELETE", PATH, delete_response, ResponseDeleted, dialect=RESPONSES, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="responses")
