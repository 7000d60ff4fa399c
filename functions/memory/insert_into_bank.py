"""POST /memory/insert: insert documents into a memory bank, as clients up to 0.1.0 do."""

from turnstone.dialects.llama_stack.memory.older_requests import InsertIntoBank
from turnstone.domain.errors import ModelBusy, ModelError, ModelTimedOut, NotFound
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, null
from turnstone.http.request import Request, parse
from turnstone.http.route import Null, Route


def insert_into_bank(request: Request) -> Reply:
    body = parse(request, InsertIntoBank)
    documents = request.use_cases.documents
    documents.insert(request.caller, body.bank_id, body.to_texts(), request.provider_data, request.attempt)
    return null()


ROUTE = Route(
    "POST",
    "/memory/insert",
    insert_into_bank,
    Null,
    InsertIntoBank,
    raises=(ModelBusy, ModelError, ModelTimedOut, NotFound),
)
handler = LambdaHandler(__name__, ROUTE, loads="documents")
