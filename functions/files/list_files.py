"""GET /v1/openai/v1/files: the files that the caller may see, newest first."""

from turnstone.dialects.openai.files import LIST_HEAD, LIST_QUERY, FileList, files_in_query, list_tail, listed_files
from turnstone.dialects.openai.pages import EndIds
from turnstone.domain.errors import StoreUnavailable
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import PiecesReply, joined
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_files(request: Request) -> PiecesReply:
    query = files_in_query(request.query)
    listing, files = request.use_cases.files.list(request.caller, query)
    ids = EndIds()
    entries = ids.noted(listed_files(files))
    return PiecesReply(joined(LIST_HEAD, entries, lambda: list_tail(ids, listing.cursor, query, listing.has_more)))


PATH = "/v1/openai/v1/files"
RAISES = (StoreUnavailable,)
ROUTE = Route("GET", PATH, list_files, FileList, query=LIST_QUERY, raises=RAISES, dialect=OPENAI, stores=False)
handler = LambdaHandler(__name__, ROUTE, loads="files")
