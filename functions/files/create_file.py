"""POST /v1/openai/v1/files: store a file."""

from turnstone.dialects.openai.files import CreateFile, FileObject, name_in, type_in
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, wire_json
from turnstone.http.request import Request, parse
from turnstone.http.route import FileField, Route


def create_file(request: Request) -> FileReply:
    body, sent = parse(request, CreateFile), request.file
    name, media_type = name_in(sent.name), type_in(sent.media_type)
    file = request.use_cases.files.create(
        request.caller, name, media_type, body.purpose, sent.parts(), body.seconds, request.attempt
    )
    return FileReply(wire_json(FileObject.of(file)), about={"file_id": file.file_id})


ROUTE = Route(
    "POST",
    "/v1/openai/v1/files",
    create_file,
    FileObject,
    CreateFile,
    dialect=OPENAI,
    file=FileField("file"),
)
handler = LambdaHandler(__name__, ROUTE, loads="files")
