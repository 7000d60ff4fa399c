"""POST /v1/openai/v1/vector_stores: create a vector store, with files to insert."""

from turnstone.dialects.openai.vector_stores.stores import CreateVectorStore, VectorStoreObject
from turnstone.domain.errors import ModelBusy, ModelError, ModelTimedOut, NotFound
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import FileReply, wire_json
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def create_vector_store(request: Request) -> FileReply:
    body = parse(request, CreateVectorStore)
    given = request.caller, body.to_bank(), body.file_ids, request.provider_data, request.attempt
    state = request.use_cases.vector_stores.create(*given, is_waiting=request.is_llama_stacks)
    return FileReply(wire_json(VectorStoreObject.of(state)), about={"vector_store_id": state.bank.bank_id})


PATH = "/v1/openai/v1/vector_stores"
ROUTE = Route(
    "POST",
    PATH,
    create_vector_store,
    VectorStoreObject,
    CreateVectorStore,
    raises=(ModelBusy, ModelError, ModelTimedOut, NotFound),
    dialect=OPENAI,
)
handler = LambdaHandler(__name__, ROUTE, loads="vector_stores")
