"""GET …/session/{session_id}/attachments/{attachment_id}: a file that a tool made, or the whole of a long answer."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import FileReply, download_headers
from turnstone.http.request import Request
from turnstone.http.route import FileBytes, Route


def get_attachment(request: Request) -> FileReply:
    attachments = request.use_cases.attachments
    file = attachments.read(request.caller, request.session_ref, request.path_params["attachment_id"])
    return FileReply(file.body, headers=download_headers(file.name), content_type=file.mime_type, pieces=file.pieces)


PATH = "/v1/agents/{agent_id}/session/{session_id}/attachments/{attachment_id}"
ROUTE = Route("GET", PATH, get_attachment, FileBytes)
handler = LambdaHandler(__name__, ROUTE, loads="attachments")
