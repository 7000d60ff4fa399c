"""POST /v1/memory-banks/{memory_bank_id}/documents: insert documents into a memory bank."""

from turnstone.dialects.llama_stack.memory.documents import InsertDocuments
from turnstone.domain.errors import ModelBusy, ModelError, ModelTimedOut
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, null
from turnstone.http.request import Request, parse
from turnstone.http.route import Null, Route


def insert_documents(request: Request) -> Reply:
    given, bank_id = parse(request, InsertDocuments).to_texts(), request.path_params["memory_bank_id"]
    request.use_cases.documents.insert(request.caller, bank_id, given, request.provider_data, request.attempt)
    return null()


ROUTE = Route(
    "POST",
    "/v1/memory-banks/{memory_bank_id}/documents",
    insert_documents,
    Null,
    InsertDocuments,
    raises=(ModelBusy, ModelError, ModelTimedOut),
)
handler = LambdaHandler(__name__, ROUTE, loads="documents")
