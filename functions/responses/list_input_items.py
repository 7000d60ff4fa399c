"""GET /v1/openai/v1/responses/{response_id}/input_items: the input of a response as it was sent, newest first."""

from turnstone.dialects.openai.responses.lists import ITEMS_QUERY, InputItemList, input_items, items_in_query
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import RESPONSES
from turnstone.http.replies import FileReply, json_reply, wire_json
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_input_items(request: Request) -> FileReply:
    query = items_in_query(request.query)
    stored = request.use_cases.responses.read(request.caller, request.path_params["response_id"])
    return json_reply(wire_json(input_items(stored, query)))


PATH = "/v1/openai/v1/responses/{response_id}/input_items"
ROUTE = Route("GET", PATH, list_input_items, InputItemList, query=ITEMS_QUERY, dialect=RESPONSES, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="responses")
