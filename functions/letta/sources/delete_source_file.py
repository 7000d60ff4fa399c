"""DELETE /letta/v1/sources/{source_id}/{file_id}: delete a file of a source with its passages."""

from turnstone.domain.letta.sources import source_id_in
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, done
from turnstone.http.request import Request
from turnstone.http.route import NoContent, Route


def delete_source_file(request: Request) -> Reply:
    source_id = source_id_in(request.path_params["source_id"])
    request.use_cases.source_files.delete(request.caller, source_id, request.path_params["file_id"])
    return done()


PATH = "/letta/v1/sources/{source_id}/{file_id}"
ROUTE = Route("DELETE", PATH, delete_source_file, NoContent, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="source_files")
