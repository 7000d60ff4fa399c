"""DELETE /v1/openai/v1/conversations/{conversation_id}/items/{item_id}: delete an item of a conversation."""

from functools import partial

from turnstone.dialects.openai.responses.conversation_items import removal_of
from turnstone.dialects.openai.responses.conversations import ConversationObject
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import RESPONSES
from turnstone.http.replies import FileReply, json_reply, wire_json
from turnstone.http.request import Request
from turnstone.http.route import Route


def delete_item(request: Request) -> FileReply:
    conversations, params = request.use_cases.conversations, request.path_params
    removal = partial(removal_of, named=params["item_id"], events_of=conversations.events_of)
    stored = conversations.delete_item(request.caller, params["conversation_id"], params["item_id"], removal)
    return json_reply(wire_json(ConversationObject.of(stored)))


PATH = "/v1/openai/v1/conversations/{conversation_id}/items/{item_id}"
ROUTE = Route("DELETE", PATH, delete_item, ConversationObject, dialect=RESPONSES, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="conversations")
