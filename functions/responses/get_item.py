"""GET /v1/openai/v1/conversations/{conversation_id}/items/{item_id}: an item of a conversation."""

from pydantic_core import to_json

from turnstone.dialects.openai.responses.conversation_items import item_of
from turnstone.dialects.openai.responses.conversations import INCLUDE_QUERY, ConversationItem, include_in
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import RESPONSES
from turnstone.http.replies import FileReply, json_reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_item(request: Request) -> FileReply:
    include = include_in(request.query)
    conversations, params = request.use_cases.conversations, request.path_params
    turn = conversations.turn_of(request.caller, params["conversation_id"], params["item_id"])
    return json_reply(to_json(item_of(turn, params["item_id"], conversations.events_of, include)))


PATH = "/v1/openai/v1/conversations/{conversation_id}/items/{item_id}"
ROUTE = Route("GET", PATH, get_item, ConversationItem, query=INCLUDE_QUERY, dialect=RESPONSES, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="conversations")
