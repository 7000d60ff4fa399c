"""POST /v1/openai/v1/uploads: begin a file that arrives in parts."""

from turnstone.dialects.openai.files import CreateUpload, Upload
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, wire_json
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def create_upload(request: Request) -> FileReply:
    body = parse(request, CreateUpload)
    upload = request.use_cases.uploads.create(request.caller, body.to_upload(), request.attempt)
    return FileReply(wire_json(Upload.of(upload)), about={"upload_id": upload.upload_id})


ROUTE = Route("POST", "/v1/openai/v1/uploads", create_upload, Upload, CreateUpload, dialect=OPENAI)
handler = LambdaHandler(__name__, ROUTE, loads="uploads")
