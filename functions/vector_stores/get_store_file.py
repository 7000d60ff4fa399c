"""GET /v1/openai/v1/vector_stores/{vector_store_id}/files/{file_id}: a file of a vector store."""

from turnstone.dialects.openai.vector_stores.store_files import StoreFile
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, json_reply, wire_json
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_store_file(request: Request) -> FileReply:
    store_id, file_id = request.path_params["vector_store_id"], request.path_params["file_id"]
    return json_reply(
        wire_json(StoreFile.of(store_id, request.use_cases.vector_stores.file(request.caller, store_id, file_id)))
    )


PATH = "/v1/openai/v1/vector_stores/{vector_store_id}/files/{file_id}"
ROUTE = Route("GET", PATH, get_store_file, StoreFile, dialect=OPENAI, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="vector_stores")
