"""GET /v1/openai/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}: a batch of files of a vector store."""

from turnstone.dialects.openai.vector_stores.store_files import FileBatchObject
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, json_reply, wire_json
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_file_batch(request: Request) -> FileReply:
    store_id, batch_id = request.path_params["vector_store_id"], request.path_params["batch_id"]
    return json_reply(
        wire_json(FileBatchObject.of(store_id, *request.use_cases.file_batches.get(request.caller, store_id, batch_id)))
    )


PATH = "/v1/openai/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}"
ROUTE = Route("GET", PATH, get_file_batch, FileBatchObject, dialect=OPENAI, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="file_batches")
