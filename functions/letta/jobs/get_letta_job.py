"""GET /letta/v1/jobs/{job_id}: a job."""

from turnstone.dialects.letta.turns.jobs import JobObject, job_of
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_letta_job(request: Request) -> Reply:
    return reply(job_of(request.use_cases.source_files.job(request.caller, request.path_params["job_id"])))


PATH = "/letta/v1/jobs/{job_id}"
ROUTE = Route("GET", PATH, get_letta_job, JobObject, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="source_files")
