"""POST /v1/openai/v1/conversations/{conversation_id}/items: add items to a conversation, without a run."""

from turnstone.dialects.openai.responses.conversation_items import items_of_turn
from turnstone.dialects.openai.responses.conversations import (
    INCLUDE_QUERY,
    AddItems,
    ConversationItemList,
    include_in,
    listed,
)
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import RESPONSES
from turnstone.http.replies import FileReply, json_reply, wire_json
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def add_items(request: Request) -> FileReply:
    include = include_in(request.query)
    items = parse(request, AddItems).to_items()
    conversations, conversation_id = request.use_cases.conversations, request.path_params["conversation_id"]
    turn = conversations.add(request.caller, conversation_id, items, request.attempt)
    return json_reply(wire_json(listed(items_of_turn(turn, conversations.events_of, include))))


PATH = "/v1/openai/v1/conversations/{conversation_id}/items"
ROUTE = Route(
    "POST",
    PATH,
    add_items,
    ConversationItemList,
    AddItems,
    query=INCLUDE_QUERY,
    dialect=RESPONSES,
)
handler = LambdaHandler(__name__, ROUTE, loads="conversations")
