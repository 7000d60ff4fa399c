"""POST /v1/openai/v1/uploads/{upload_id}/complete: make a file of the parts of an upload."""

from turnstone.dialects.openai.files import CompleteUpload, Upload
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, wire_json
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def complete_upload(request: Request) -> FileReply:
    body, upload_id = parse(request, CompleteUpload), request.path_params["upload_id"]
    upload = request.use_cases.uploads.complete(request.caller, upload_id, body.part_ids, body.md5)
    return FileReply(wire_json(Upload.of(upload)))


PATH = "/v1/openai/v1/uploads/{upload_id}/complete"
ROUTE = Route("POST", PATH, complete_upload, Upload, CompleteUpload, dialect=OPENAI, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="uploads")
