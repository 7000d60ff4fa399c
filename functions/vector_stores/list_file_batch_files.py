"""GET …/file_batches/{batch_id}/files: the files of a batch, the last one first."""

from turnstone.dialects.openai.vector_stores.entries import FILES_QUERY, files_in_store_query
from turnstone.dialects.openai.vector_stores.store_files import StoreFileList
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, json_reply, wire_json
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_file_batch_files(request: Request) -> FileReply:
    store_id, batch_id = request.path_params["vector_store_id"], request.path_params["batch_id"]
    query = files_in_store_query(request.query)
    page = request.use_cases.file_batches.files(request.caller, store_id, batch_id, query)
    return json_reply(wire_json(StoreFileList.of(store_id, page)))


PATH = "/v1/openai/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/files"
ROUTE = Route("GET", PATH, list_file_batch_files, StoreFileList, query=FILES_QUERY, dialect=OPENAI, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="file_batches")
