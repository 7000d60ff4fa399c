"""GET /letta/v1/sources/{source_id}/files: the files of a source, oldest first."""

from turnstone.dialects.letta.sources import SOURCE_FILES_QUERY, FilesMetadata, files_of, source_files_query
from turnstone.domain.letta.sources import source_id_in
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_source_files(request: Request) -> Reply:
    query = source_files_query(request.query)
    source_id = source_id_in(request.path_params["source_id"])
    bank, documents = request.use_cases.source_files.list(request.caller, source_id, query)
    return reply(files_of(bank, documents, request.caller.tenant))


PATH = "/letta/v1/sources/{source_id}/files"
ROUTE = Route("GET", PATH, list_source_files, FilesMetadata, query=SOURCE_FILES_QUERY, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="source_files")
