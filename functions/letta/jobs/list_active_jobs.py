"""GET /letta/v1/jobs/active: the jobs that have not ended, newest first."""

from turnstone.dialects.letta.turns.jobs import ACTIVE_JOBS_QUERY, JobObjects, active_jobs_query, jobs_of
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_active_jobs(request: Request) -> Reply:
    return reply(jobs_of(request.use_cases.source_files.list_jobs(request.caller, active_jobs_query(request.query))))


PATH = "/letta/v1/jobs/active"
ROUTE = Route("GET", PATH, list_active_jobs, JobObjects, query=ACTIVE_JOBS_QUERY, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="source_files")
