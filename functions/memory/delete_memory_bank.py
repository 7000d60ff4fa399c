"""DELETE /v1/memory-banks/{memory_bank_id}: delete a memory bank with its content."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, null
from turnstone.http.request import Request
from turnstone.http.route import Null, Route


def delete_memory_bank(request: Request) -> Reply:
    request.use_cases.banks.delete(request.caller, request.path_params["memory_bank_id"])
    return null()


ROUTE = Route("DELETE", "/v1/memory-banks/{memory_bank_id}", delete_memory_bank, Null)
handler = LambdaHandler(__name__, ROUTE, loads="banks")
