"""POST /v1/openai/v1/vector_stores/{vector_store_id}: change name, metadata or expiry of a vector store."""

from turnstone.dialects.openai.vector_stores.stores import UpdateVectorStore, VectorStoreObject
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, json_reply, wire_json
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def update_vector_store(request: Request) -> FileReply:
    body, store_id = parse(request, UpdateVectorStore), request.path_params["vector_store_id"]
    return json_reply(
        wire_json(VectorStoreObject.of(request.use_cases.vector_stores.update(request.caller, store_id, body.changed)))
    )


PATH = "/v1/openai/v1/vector_stores/{vector_store_id}"
ROUTE = Route("POST", PATH, update_vector_store, VectorStoreObject, UpdateVectorStore, dialect=OPENAI, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="vector_stores")
