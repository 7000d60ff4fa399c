"""GET /v1/openai/v1/files/{file_id}/content: the content of a file."""

from turnstone.dialects.openai.files import sent_as
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, download_headers
from turnstone.http.request import Request
from turnstone.http.route import FileBytes, Route


def get_file_content(request: Request) -> FileReply:
    file, content = request.use_cases.files.open(request.caller, request.path_params["file_id"])
    return FileReply(
        b"", headers=download_headers(file.filename), content_type=sent_as(file.media_type), pieces=content
    )


ROUTE = Route("GET", "/v1/openai/v1/files/{file_id}/content", get_file_content, FileBytes, dialect=OPENAI, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="files")
