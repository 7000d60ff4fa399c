"""GET /letta/v1/jobs: the newest jobs that the caller may see, newest first."""

from turnstone.dialects.letta.turns.jobs import JOBS_QUERY, JobObjects, jobs_of, jobs_query
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_letta_jobs(request: Request) -> Reply:
    return reply(jobs_of(request.use_cases.source_files.list_jobs(request.caller, jobs_query(request.query))))


PATH = "/letta/v1/jobs"
ROUTE = Route("GET", PATH, list_letta_jobs, JobObjects, query=JOBS_QUERY, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="source_files")
