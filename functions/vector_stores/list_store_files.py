"""GET /v1/openai/v1/vector_stores/{vector_store_id}/files: the files of a vector store, newest first."""

from turnstone.dialects.openai.vector_stores.entries import FILES_QUERY, documents_query, files_in_store_query
from turnstone.dialects.openai.vector_stores.store_files import StoreFileList
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, json_reply, wire_json
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_store_files(request: Request) -> FileReply:
    query, store_id = documents_query(files_in_store_query(request.query)), request.path_params["vector_store_id"]
    return json_reply(
        wire_json(StoreFileList.of(store_id, request.use_cases.vector_stores.files(request.caller, store_id, query)))
    )


PATH = "/v1/openai/v1/vector_stores/{vector_store_id}/files"
ROUTE = Route("GET", PATH, list_store_files, StoreFileList, query=FILES_QUERY, dialect=OPENAI, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="vector_stores")
