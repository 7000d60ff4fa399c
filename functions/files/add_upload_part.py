"""POST /v1/openai/v1/uploads/{upload_id}/parts: add a part to an upload."""

from turnstone.dialects.openai.files import AddUploadPart, UploadPart
from turnstone.domain.files.stored_files import MOST_PART_BYTES
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, wire_json
from turnstone.http.request import Request, parse
from turnstone.http.route import FileField, Route


def add_upload_part(request: Request) -> FileReply:
    parse(request, AddUploadPart)
    upload_id, sent = request.path_params["upload_id"], request.file
    uploads = request.use_cases.uploads
    part = uploads.add_part(request.caller, upload_id, sent.size_bytes, sent.parts(), request.attempt)
    created_at = int(part.created_at.timestamp())
    return FileReply(wire_json(UploadPart(id=part.part_id, created_at=created_at, upload_id=upload_id)))


ROUTE = Route(
    "POST",
    "/v1/openai/v1/uploads/{upload_id}/parts",
    add_upload_part,
    UploadPart,
    AddUploadPart,
    dialect=OPENAI,
    file=FileField("data", MOST_PART_BYTES),
)
handler = LambdaHandler(__name__, ROUTE, loads="uploads")
