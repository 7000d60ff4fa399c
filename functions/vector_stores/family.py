"""The routes of vector stores as one function, which shares the indexes that it has loaded, and streams contents."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.family_routes import FamilyRoutes

TABLE = {
    "POST /v1/openai/v1/vector_stores": "create_vector_store",
    "GET /v1/openai/v1/vector_stores": "list_vector_stores",
    "GET /v1/openai/v1/vector_stores/{vector_store_id}": "get_vector_store",
    "POST /v1/openai/v1/vector_stores/{vector_store_id}": "update_vector_store",
    "DELETE /v1/openai/v1/vector_stores/{vector_store_id}": "delete_vector_store",
    "POST /v1/openai/v1/vector_stores/{vector_store_id}/search": "search_vector_store",
    "POST /v1/openai/v1/vector_stores/{vector_store_id}/files": "add_store_file",
    "GET /v1/openai/v1/vector_stores/{vector_store_id}/files": "list_store_files",
    "GET /v1/openai/v1/vector_stores/{vector_store_id}/files/{file_id}": "get_store_file",
    "POST /v1/openai/v1/vector_stores/{vector_store_id}/files/{file_id}": "update_store_file",
    "DELETE /v1/openai/v1/vector_stores/{vector_store_id}/files/{file_id}": "remove_store_file",
    "GET /v1/openai/v1/vector_stores/{vector_store_id}/files/{file_id}/content": "get_store_file_content",
    "POST /v1/openai/v1/vector_stores/{vector_store_id}/file_batches": "add_file_batch",
    "GET /v1/openai/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}": "get_file_batch",
    "POST /v1/openai/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/cancel": "cancel_file_batch",
    "GET /v1/openai/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/files": "list_file_batch_files",
}
ROUTES = FamilyRoutes(__package__, TABLE)
handler = LambdaHandler(__name__, family=ROUTES, loads=("vector_stores", "file_batches"))
