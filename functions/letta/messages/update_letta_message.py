"""PATCH /letta/v1/agents/{agent_id}/messages/{message_id}: change a message; the next turn has the changed one."""

from turnstone.dialects.letta.ids import bare, row_in
from turnstone.dialects.letta.overview.message_objects import MessageObject
from turnstone.dialects.letta.turns.edits import MessageUpdate, edit_of, message_object
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def update_letta_message(request: Request) -> Reply:
    update = parse(request, MessageUpdate)
    agent_id, text = bare("agent", request.path_params["agent_id"]), request.path_params["message_id"]
    turn_id, number = row_in(text)
    edited = request.use_cases.letta_editing.edit(
        request.caller, agent_id, text, turn_id, lambda state: edit_of(update, state, number, text)
    )
    return reply(message_object(edited.agent, request.caller.tenant, edited.state, number, edited.at))


PATH = "/letta/v1/agents/{agent_id}/messages/{message_id}"
ROUTE = Route("PATCH", PATH, update_letta_message, MessageObject, MessageUpdate, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_editing")
