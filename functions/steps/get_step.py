"""GET …/turn/{turn_id}/step/{step_id}: one finished step of a turn."""

from turnstone.dialects.llama_stack.turn_replies import StepReply
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.routes import Reply, Request, Route, reply


def get_step(request: Request) -> Reply:
    step = request.application.reader.get_step(request.caller, request.turn_ref, request.path_params["step_id"])
    return reply(StepReply(step=step))


ROUTE = Route("GET", "/v1/agents/{agent_id}/session/{session_id}/turn/{turn_id}/step/{step_id}", get_step, StepReply)
handler = LambdaHandler(__name__, ROUTE, loads="reader")
