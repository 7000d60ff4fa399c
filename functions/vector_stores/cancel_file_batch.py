"""POST …/file_batches/{batch_id}/cancel: cancel the insertions of a batch that are in progress."""

from turnstone.dialects.openai.vector_stores.store_files import FileBatchObject
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, json_reply, wire_json
from turnstone.http.request import Request
from turnstone.http.route import Route


def cancel_file_batch(request: Request) -> FileReply:
    store_id, batch_id = request.path_params["vector_store_id"], request.path_params["batch_id"]
    state = request.use_cases.file_batches.cancel(request.caller, store_id, batch_id)
    return json_reply(wire_json(FileBatchObject.of(store_id, *state)))


PATH = "/v1/openai/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/cancel"
ROUTE = Route("POST", PATH, cancel_file_batch, FileBatchObject, dialect=OPENAI, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="file_batches")
