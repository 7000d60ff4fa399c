"""DELETE /v1/memory-banks/{memory_bank_id}/documents/{document_id}: delete a document."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, null
from turnstone.http.request import Request
from turnstone.http.route import Null, Route


def delete_document(request: Request) -> Reply:
    bank_id, document_id = request.path_params["memory_bank_id"], request.path_params["document_id"]
    request.use_cases.documents.drop(request.caller, bank_id, document_id)
    return null()


ROUTE = Route(
    "DELETE", "/v1/memory-banks/{memory_bank_id}/documents/{document_id}", delete_document, Null, takes_slashes=True
)
handler = LambdaHandler(__name__, ROUTE, loads="documents")
