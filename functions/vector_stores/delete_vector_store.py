"""DELETE /v1/openai/v1/vector_stores/{vector_store_id}: delete a vector store; its files remain."""

from turnstone.dialects.openai.vector_stores.stores import VectorStoreDeleted
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, json_reply, wire_json
from turnstone.http.request import Request
from turnstone.http.route import Route


def delete_vector_store(request: Request) -> FileReply:
    store_id = request.path_params["vector_store_id"]
    request.use_cases.vector_stores.delete(request.caller, store_id)
    return json_reply(wire_json(VectorStoreDeleted(id=store_id)))


PATH = "/v1/openai/v1/vector_stores/{vector_store_id}"
ROUTE = Route("DELETE", PATH, delete_vector_store, VectorStoreDeleted, dialect=OPENAI, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="vector_stores")
