"""GET /letta/v1/runs: the newest runs that the caller may see, newest first."""

from turnstone.dialects.letta.turns.runs import RUNS_QUERY, RunObjects, runs_limit, runs_of
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_letta_runs(request: Request) -> Reply:
    found = request.use_cases.letta_runs.list(request.caller, runs_limit(request.query))
    return reply(runs_of(found))


PATH = "/letta/v1/runs"
ROUTE = Route("GET", PATH, list_letta_runs, RunObjects, query=RUNS_QUERY, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_runs")
