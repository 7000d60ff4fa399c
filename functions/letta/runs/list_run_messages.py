"""GET /letta/v1/runs/{run_id}/messages: the messages of a run."""

from turnstone.dialects.letta.messages import Notes
from turnstone.dialects.letta.turns.runs import RUN_MESSAGES_QUERY, run_rows_query
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_run_messages(request: Request) -> Reply:
    query = run_rows_query(request.query)
    run = request.use_cases.letta_runs.read(request.caller, request.path_params["run_id"])
    return reply(Notes(query.notes(run)))


PATH = "/letta/v1/runs/{run_id}/messages"
ROUTE = Route("GET", PATH, list_run_messages, Notes, query=RUN_MESSAGES_QUERY, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="letta_runs")
