"""POST /letta/v1/sources/{source_id}/upload: upload a file, which a job inserts into a source."""

from turnstone.dialects.letta.sources import UploadSourceFile, file_name_in, file_type_in
from turnstone.dialects.letta.turns.jobs import JobObject, job_of
from turnstone.domain.letta.sources import NewSourceFile, source_id_in
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import FileField, Route


def upload_source_file(request: Request) -> Reply:
    parse(request, UploadSourceFile)
    source_id, sent = source_id_in(request.path_params["source_id"]), request.file
    new = NewSourceFile(file_name_in(sent.name), file_type_in(sent.media_type), sent.parts())
    job = request.use_cases.source_files.upload(request.caller, source_id, new, request.attempt)
    return reply(job_of(job))


PATH = "/letta/v1/sources/{source_id}/upload"
ROUTE = Route("POST", PATH, upload_source_file, JobObject, UploadSourceFile, file=FileField("file"), dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="source_files")
