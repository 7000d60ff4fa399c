"""GET /v1/memory-banks/{memory_bank_id}/documents: the documents of a memory bank."""

from turnstone.dialects.llama_stack.memory.documents import QUERY, BankDocumentList, document_list, documents_in_query
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_documents(request: Request) -> Reply:
    bank_id, query = request.path_params["memory_bank_id"], documents_in_query(request.query)
    return reply(document_list(request.use_cases.documents.list(request.caller, bank_id, query)))


ROUTE = Route("GET", "/v1/memory-banks/{memory_bank_id}/documents", list_documents, BankDocumentList, query=QUERY)
handler = LambdaHandler(__name__, ROUTE, loads="documents")
