"""GET /v1/memory-banks/{memory_bank_id}: a memory bank of any kind."""

from turnstone.dialects.llama_stack.memory.memory_banks import MemoryBank, memory_bank_of
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_memory_bank(request: Request) -> Reply:
    return reply(memory_bank_of(request.use_cases.banks.get(request.caller, request.path_params["memory_bank_id"])))


ROUTE = Route("GET", "/v1/memory-banks/{memory_bank_id}", get_memory_bank, MemoryBank)
handler = LambdaHandler(__name__, ROUTE, loads="banks")
