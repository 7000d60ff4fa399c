"""DELETE /v1/openai/v1/files/{file_id}: delete a file."""

from turnstone.dialects.openai.files import FileDeleted
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, wire_json
from turnstone.http.request import Request
from turnstone.http.route import Route


def delete_file(request: Request) -> FileReply:
    file_id = request.path_params["file_id"]
    request.use_cases.files.delete(request.caller, file_id)
    return FileReply(wire_json(FileDeleted(id=file_id)))


ROUTE = Route("DELETE", "/v1/openai/v1/files/{file_id}", delete_file, FileDeleted, dialect=OPENAI, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="files")
