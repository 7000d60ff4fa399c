"""The routes of files and uploads as one function, which streams: files may outgrow a buffered answer."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.family_routes import FamilyRoutes

TABLE = {
    "POST /v1/openai/v1/files": "create_file",
    "GET /v1/openai/v1/files": "list_files",
    "GET /v1/openai/v1/files/{file_id}": "get_file",
    "DELETE /v1/openai/v1/files/{file_id}": "delete_file",
    "GET /v1/openai/v1/files/{file_id}/content": "get_file_content",
    "POST /v1/openai/v1/uploads": "create_upload",
    "POST /v1/openai/v1/uploads/{upload_id}/parts": "add_upload_part",
    "POST /v1/openai/v1/uploads/{upload_id}/complete": "complete_upload",
    "POST /v1/openai/v1/uploads/{upload_id}/cancel": "cancel_upload",
}
ROUTES = FamilyRoutes(__package__, TABLE)
handler = LambdaHandler(__name__, family=ROUTES, loads=("files", "uploads"))
