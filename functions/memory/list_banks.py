"""GET /memory-banks/list: the memory banks that the caller may see, for clients before `/v1`."""

from turnstone.dialects.llama_stack.memory.memory_banks import memory_banks_of
from turnstone.dialects.llama_stack.memory.older_requests import MemoryBanks
from turnstone.domain.errors import StoreUnavailable
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_banks(request: Request) -> Reply:
    return reply(MemoryBanks(memory_banks_of(request.use_cases.banks.list(request.caller))))


ROUTE = Route("GET", "/memory-banks/list", list_banks, MemoryBanks, raises=(StoreUnavailable,))
handler = LambdaHandler(__name__, ROUTE, loads="banks")
