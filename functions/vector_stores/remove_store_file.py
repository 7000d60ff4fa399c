"""DELETE …/vector_stores/{vector_store_id}/files/{file_id}: remove a file from a vector store; it is kept."""

from turnstone.dialects.openai.vector_stores.store_files import StoreFileDeleted
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, json_reply, wire_json
from turnstone.http.request import Request
from turnstone.http.route import Route


def remove_store_file(request: Request) -> FileReply:
    file_id = request.path_params["file_id"]
    request.use_cases.vector_stores.remove_file(request.caller, request.path_params["vector_store_id"], file_id)
    return json_reply(wire_json(StoreFileDeleted(id=file_id)))


PATH = "/v1/openai/v1/vector_stores/{vector_store_id}/files/{file_id}"
ROUTE = Route("DELETE", PATH, remove_store_file, StoreFileDeleted, dialect=OPENAI, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="vector_stores")
