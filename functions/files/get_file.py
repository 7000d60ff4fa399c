"""GET /v1/openai/v1/files/{file_id}: a file, without its content."""

from turnstone.dialects.openai.files import FileObject
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, wire_json
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_file(request: Request) -> FileReply:
    file = request.use_cases.files.get(request.caller, request.path_params["file_id"])
    return FileReply(wire_json(FileObject.of(file)))


ROUTE = Route("GET", "/v1/openai/v1/files/{file_id}", get_file, FileObject, dialect=OPENAI, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="files")
