"""POST /v1/tool-runtime/rag-tool/insert: insert documents into a vector database."""

from turnstone.dialects.llama_stack.memory.rag import InsertRagDocuments
from turnstone.domain.errors import ModelBusy, ModelError, ModelTimedOut, NotFound
from turnstone.domain.memory.banks import SEARCHED
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, null
from turnstone.http.request import Request, parse
from turnstone.http.route import Null, Route


def insert_rag_documents(request: Request) -> Reply:
    body = parse(request, InsertRagDocuments)
    request.use_cases.documents.insert(
        request.caller, body.vector_db_id, body.to_texts(), request.provider_data, request.attempt, SEARCHED
    )
    return null()


ROUTE = Route(
    "POST",
    "/v1/tool-runtime/rag-tool/insert",
    insert_rag_documents,
    Null,
    InsertRagDocuments,
    raises=(ModelBusy, ModelError, ModelTimedOut, NotFound),
)
handler = LambdaHandler(__name__, ROUTE, loads="documents")
