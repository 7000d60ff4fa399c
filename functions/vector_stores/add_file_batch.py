"""POST /v1/openai/v1/vector_stores/{vector_store_id}/file_batches: insert files into a vector store."""

from turnstone.dialects.openai.vector_stores.store_files import AddFileBatch, FileBatchObject
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, json_reply, wire_json
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def add_file_batch(request: Request) -> FileReply:
    body, store_id = parse(request, AddFileBatch), request.path_params["vector_store_id"]
    news = body.to_documents()
    state = request.use_cases.file_batches.create(request.caller, store_id, news, request.attempt)
    return json_reply(wire_json(FileBatchObject.of(store_id, *state)))


PATH = "/v1/openai/v1/vector_stores/{vector_store_id}/file_batches"
ROUTE = Route("POST", PATH, add_file_batch, FileBatchObject, AddFileBatch, dialect=OPENAI)
handler = LambdaHandler(__name__, ROUTE, loads="file_batches")
