"""The routes of this family as one function: they share the indexes that it has loaded."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.family_routes import FamilyRoutes

TABLE = {
    "GET /v1/vector-dbs/{vector_db_id+}": "get_vector_db",
    "GET /v1/vector-dbs": "list_vector_dbs",
    "POST /v1/vector-dbs": "register_vector_db",
    "DELETE /v1/vector-dbs/{vector_db_id+}": "unregister_vector_db",
    "POST /v1/vector-io/insert": "insert_chunks",
    "POST /v1/vector-io/query": "query_chunks",
    "POST /v1/memory-banks": "register_memory_bank",
    "GET /v1/memory-banks": "list_memory_banks",
    "GET /v1/memory-banks/{memory_bank_id}": "get_memory_bank",
    "DELETE /v1/memory-banks/{memory_bank_id}": "delete_memory_bank",
    "POST /v1/memory-banks/{memory_bank_id}/documents": "insert_documents",
    "GET /v1/memory-banks/{memory_bank_id}/documents": "list_documents",
    "GET /v1/memory-banks/{memory_bank_id}/documents/{document_id+}": "get_document",
    "DELETE /v1/memory-banks/{memory_bank_id}/documents/{document_id+}": "delete_document",
    "POST /v1/memory-banks/{memory_bank_id}/query": "query_memory_bank",
    "POST /v1/tool-runtime/rag-tool/insert": "insert_rag_documents",
    "POST /v1/tool-runtime/rag-tool/query": "query_rag",
    "POST /memory-banks/register": "register_bank",
    "GET /memory-banks/list": "list_banks",
    "GET /memory-banks/get": "get_bank",
    "POST /memory-banks/unregister": "unregister_bank",
    "POST /memory/insert": "insert_into_bank",
    "POST /memory/query": "query_bank",
}
ROUTES = FamilyRoutes(__package__, TABLE)
handler = LambdaHandler(__name__, family=ROUTES, loads="banks")
