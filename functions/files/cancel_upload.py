"""POST /v1/openai/v1/uploads/{upload_id}/cancel: cancel an upload."""

from turnstone.dialects.openai.files import Upload
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, wire_json
from turnstone.http.request import Request
from turnstone.http.route import Route


def cancel_upload(request: Request) -> FileReply:
    upload = request.use_cases.uploads.cancel(request.caller, request.path_params["upload_id"])
    return FileReply(wire_json(Upload.of(upload)))


PATH = "/v1/openai/v1/uploads/{upload_id}/cancel"
ROUTE = Route("POST", PATH, cancel_upload, Upload, dialect=OPENAI, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="uploads")
