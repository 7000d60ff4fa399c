"""POST /v1/openai/v1/vector_stores/{vector_store_id}/files: insert a file into a vector store."""

from turnstone.dialects.openai.vector_stores.store_files import AddStoreFile, StoreFile
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, json_reply, wire_json
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def add_store_file(request: Request) -> FileReply:
    body, store_id = parse(request, AddStoreFile), request.path_params["vector_store_id"]
    (document,) = request.use_cases.vector_stores.add_files(
        request.caller, store_id, [body.to_document()], request.attempt, is_waiting=request.is_llama_stacks
    )
    return json_reply(wire_json(StoreFile.of(store_id, document)))


PATH = "/v1/openai/v1/vector_stores/{vector_store_id}/files"
ROUTE = Route("POST", PATH, add_store_file, StoreFile, AddStoreFile, dialect=OPENAI)
handler = LambdaHandler(__name__, ROUTE, loads="vector_stores")
