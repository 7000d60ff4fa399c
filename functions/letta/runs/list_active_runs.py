"""GET /letta/v1/runs/active: the runs that have not ended, newest first."""

from turnstone.dialects.letta.turns.runs import RUNS_QUERY, RunObjects, runs_limit, runs_of
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_active_runs(request: Request) -> Reply:
    found = request.use_cases.letta_runs.active(request.caller, runs_limit(request.query))
    return reply(runs_of(found))


PATH = "/letta/v1/runs/active"
ROUTE = Route("GET", PATH, list_active_runs, RunObjects, query=RUNS_QUERY, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_runs")
