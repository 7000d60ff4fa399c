"""POST /memory-banks/unregister: delete a memory bank, as clients before `/v1` do."""

from turnstone.dialects.llama_stack.memory.older_requests import MemoryBankNamed
from turnstone.domain.errors import NotFound
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, null
from turnstone.http.request import Request, parse
from turnstone.http.route import Null, Route


def unregister_bank(request: Request) -> Reply:
    request.use_cases.banks.delete(request.caller, parse(request, MemoryBankNamed).memory_bank_id)
    return null()


ROUTE = Route(
    "POST",
    "/memory-banks/unregister",
    unregister_bank,
    Null,
    MemoryBankNamed,
    raises=(NotFound,),
    stores=False,
)
handler = LambdaHandler(__name__, ROUTE, loads="banks")
