"""GET /memory-banks/get: a memory bank, by the id in the query."""

from turnstone.dialects.llama_stack.memory.memory_banks import MemoryBank, memory_bank_of
from turnstone.dialects.llama_stack.memory.older_requests import QUERY, MemoryBankNamed, bank_in_query
from turnstone.domain.errors import NotFound
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, checked
from turnstone.http.route import Route


def get_bank(request: Request) -> Reply:
    query = checked(bank_in_query(request.query), MemoryBankNamed)
    return reply(memory_bank_of(request.use_cases.banks.get(request.caller, query.memory_bank_id)))


ROUTE = Route("GET", "/memory-banks/get", get_bank, MemoryBank, query=QUERY, raises=(NotFound,))
handler = LambdaHandler(__name__, ROUTE, loads="banks")
