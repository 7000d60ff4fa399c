"""POST /letta/v1/agents/{agent_id}/messages/async: send messages; the answer is their run, at once."""

from turnstone.dialects.letta.ids import bare
from turnstone.dialects.letta.message_requests import BackgroundRequest
from turnstone.dialects.letta.turns.runs import RunObject, run_of
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def start_letta_run(request: Request) -> Reply:
    body = parse(request, BackgroundRequest)
    agent_id = bare("agent", request.path_params["agent_id"])
    config = body.config.model_dump(exclude_defaults=True)
    runs = request.use_cases.letta_runs
    return reply(run_of(runs.start(request.caller, agent_id, body.to_messages(), config, request.attempt)))


PATH = "/letta/v1/agents/{agent_id}/messages/async"
ROUTE = Route("POST", PATH, start_letta_run, RunObject, BackgroundRequest, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads=("letta_runs", "turns"))
