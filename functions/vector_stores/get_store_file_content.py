"""GET …/vector_stores/{vector_store_id}/files/{file_id}/content: the text of a file, in chunks."""

from turnstone.dialects.openai.vector_stores.store_files import StoreFileContent, content_wire
from turnstone.domain.errors import ContentLost
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import PiecesReply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_store_file_content(request: Request) -> PiecesReply:
    store_id, file_id = request.path_params["vector_store_id"], request.path_params["file_id"]
    document, chunks = request.use_cases.vector_stores.content(request.caller, store_id, file_id)
    return PiecesReply(content_wire(document, chunks))


PATH = "/v1/openai/v1/vector_stores/{vector_store_id}/files/{file_id}/content"
ROUTE = Route(
    "GET", PATH, get_store_file_content, StoreFileContent, raises=(ContentLost,), dialect=OPENAI, stores=False
)
handler = LambdaHandler(__name__, ROUTE, loads="vector_stores")
