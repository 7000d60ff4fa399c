"""GET /v1/memory-banks: the memory banks of any kind that the caller may see."""

from turnstone.dialects.llama_stack.memory.memory_banks import MemoryBankList, memory_banks_of
from turnstone.domain.errors import StoreUnavailable
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_memory_banks(request: Request) -> Reply:
    return reply(MemoryBankList(data=memory_banks_of(request.use_cases.banks.list(request.caller))))


ROUTE = Route("GET", "/v1/memory-banks", list_memory_banks, MemoryBankList, raises=(StoreUnavailable,))
handler = LambdaHandler(__name__, ROUTE, loads="banks")
