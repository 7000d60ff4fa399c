"""GET …/turn/{turn_id}/step/{step_id}: one finished step of a turn."""

from turnstone.dialects.llama_stack.turns.replies import StepReply
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply, restored
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_step(request: Request) -> Reply:
    read = request.use_cases.reader.read(request.caller, request.turn_ref)
    return restored(reply(StepReply(step=read.step(request.path_params["step_id"]))), read.restore)


ROUTE = Route("GET", "/v1/agents/{agent_id}/session/{session_id}/turn/{turn_id}/step/{step_id}", get_step, StepReply)
handler = LambdaHandler(__name__, ROUTE, loads="reader")
