"""DELETE /letta/v1/agents/{agent_id}/archival/{memory_id}: remove a passage of an agent's archival memory."""

from turnstone.dialects.letta.ids import bare
from turnstone.dialects.letta.passages import PassageDeleted
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def delete_passage(request: Request) -> Reply:
    agent_id, passage_id = bare("agent", request.path_params["agent_id"]), request.path_params["memory_id"]
    request.use_cases.letta_agents.check_change(request.caller, agent_id)
    request.use_cases.archives.drop(request.caller.tenant, agent_id, bare("passage", passage_id))
    return reply(PassageDeleted(message=f"Passage {passage_id} was deleted"))


PATH = "/letta/v1/agents/{agent_id}/archival/{memory_id}"
ROUTE = Route("DELETE", PATH, delete_passage, PassageDeleted, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_agents")
