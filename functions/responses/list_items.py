"""GET /v1/openai/v1/conversations/{conversation_id}/items: the items of a conversation, newest first."""

from turnstone.dialects.openai.responses.conversations import (
    ITEMS_QUERY,
    ConversationItemList,
    conversation_page_in,
    include_in,
    items_page,
    turn_after,
)
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import RESPONSES
from turnstone.http.replies import FileReply, json_reply, wire_json
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_items(request: Request) -> FileReply:
    query, include = conversation_page_in(request.query), include_in(request.query)
    conversations, conversation_id = request.use_cases.conversations, request.path_params["conversation_id"]
    is_newest_first = query.is_newest_first
    turns = conversations.turns(request.caller, conversation_id, turn_after(query), is_newest_first=is_newest_first)
    return json_reply(wire_json(items_page(turns, query, conversations.events_of, include)))


PATH = "/v1/openai/v1/conversations/{conversation_id}/items"
ROUTE = Route("GET", PATH, list_items, ConversationItemList, query=ITEMS_QUERY, dialect=RESPONSES, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="conversations")
