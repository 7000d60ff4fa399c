"""GET /v1/memory-banks/{memory_bank_id}/documents/{document_id}: a document of a memory bank."""

from turnstone.dialects.llama_stack.memory.documents import BankDocument, document_of
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_document(request: Request) -> Reply:
    bank_id, document_id = request.path_params["memory_bank_id"], request.path_params["document_id"]
    return reply(document_of(request.use_cases.documents.get(request.caller, bank_id, document_id)))


ROUTE = Route(
    "GET", "/v1/memory-banks/{memory_bank_id}/documents/{document_id}", get_document, BankDocument, takes_slashes=True
)
handler = LambdaHandler(__name__, ROUTE, loads="documents")
