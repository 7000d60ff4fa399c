"""GET /memory-banks/get: a memory bank, by the id in the query."""

from turnstone.dialects.llama_stack.memory.memory_banks import MemoryBank, memory_bank_of
from turnstone.dialects.llama_stack_2024.memory_requests import MemoryBankNamed
from turnstone.dialects.llama_stack_2024.requests import named_in_query, query_of
from turnstone.domain.errors import NotFound
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LLAMA_STACK_2024
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, checked
from turnstone.http.route import Route


def get_bank(request: Request) -> Reply:
    query = checked(named_in_query(request.query, *QUERY), MemoryBankNamed)
    return reply(memory_bank_of(request.use_cases.banks.get(request.caller, query.memory_bank_id)))


QUERY = query_of("memory_bank_id")
ROUTE = Route(
    "GET", "/memory-banks/get", get_bank, MemoryBank, query=QUERY, raises=(NotFound,), dialect=LLAMA_STACK_2024
)
handler = LambdaHandler(__name__, ROUTE, loads="banks")
