"""POST …/vector_stores/{vector_store_id}/files/{file_id}: replace the attributes of a file."""

from turnstone.dialects.openai.vector_stores.store_files import StoreFile, UpdateStoreFile
from turnstone.domain.errors import ContentLost
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, json_reply, wire_json
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def update_store_file(request: Request) -> FileReply:
    body, store_id = parse(request, UpdateStoreFile), request.path_params["vector_store_id"]
    document = request.use_cases.vector_stores.set_attributes(
        request.caller, store_id, request.path_params["file_id"], body.attributes or {}
    )
    return json_reply(wire_json(StoreFile.of(store_id, document)))


PATH = "/v1/openai/v1/vector_stores/{vector_store_id}/files/{file_id}"
ROUTE = Route(
    "POST", PATH, update_store_file, StoreFile, UpdateStoreFile, raises=(ContentLost,), dialect=OPENAI, stores=False
)
handler = LambdaHandler(__name__, ROUTE, loads="vector_stores")
