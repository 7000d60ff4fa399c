"""GET /letta/v1/runs/{run_id}: a run as it is now."""

from turnstone.dialects.letta.turns.runs import RunObject, run_of
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_letta_run(request: Request) -> Reply:
    run = request.use_cases.letta_runs.read(request.caller, request.path_params["run_id"])
    return reply(run_of(run))


PATH = "/letta/v1/runs/{run_id}"
ROUTE = Route("GET", PATH, get_letta_run, RunObject, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_runs")
