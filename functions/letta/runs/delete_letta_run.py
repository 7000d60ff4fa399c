"""DELETE /letta/v1/runs/{run_id}: delete a run, and cancel it if it has not ended; its messages stay."""

from turnstone.dialects.letta.turns.runs import RunObject, run_of
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def delete_letta_run(request: Request) -> Reply:
    run_id = request.path_params["run_id"]
    return reply(run_of(request.use_cases.letta_runs.delete(request.caller, run_id, request.attempt)))


PATH = "/letta/v1/runs/{run_id}"
ROUTE = Route("DELETE", PATH, delete_letta_run, RunObject, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads=("letta_runs", "cancelling"))
