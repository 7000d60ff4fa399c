"""POST /v1/vector-io/insert: insert chunks into a vector database."""

from turnstone.dialects.llama_stack.memory.vector_io import InsertChunks
from turnstone.domain.errors import ModelBusy, ModelError, ModelTimedOut, NotFound
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, null
from turnstone.http.request import Request, parse
from turnstone.http.route import Null, Route


def insert_chunks(request: Request) -> Reply:
    body = parse(request, InsertChunks)
    request.use_cases.inserting.insert_chunks(
        request.caller, body.vector_db_id, body.to_given(), request.provider_data, request.attempt
    )
    return null()


ROUTE = Route(
    "POST",
    "/v1/vector-io/insert",
    insert_chunks,
    Null,
    InsertChunks,
    raises=(ModelBusy, ModelError, ModelTimedOut, NotFound),
)
handler = LambdaHandler(__name__, ROUTE, loads="inserting")
