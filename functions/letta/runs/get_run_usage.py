"""GET /letta/v1/runs/{run_id}/usage: the tokens of a run."""

from turnstone.dialects.letta.turns.runs import RunUsage, usage_of_run
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_run_usage(request: Request) -> Reply:
    run = request.use_cases.letta_runs.read(request.caller, request.path_params["run_id"])
    return reply(usage_of_run(run))


PATH = "/letta/v1/runs/{run_id}/usage"
ROUTE = Route("GET", PATH, get_run_usage, RunUsage, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_runs")
