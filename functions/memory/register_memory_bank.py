"""POST /v1/memory-banks: register a memory bank of any kind."""

from turnstone.dialects.llama_stack.memory.memory_banks import MemoryBank, RegisterMemoryBank, memory_bank_of
from turnstone.domain.errors import AlreadyRegistered, ModelBusy, ModelError, ModelTimedOut
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def register_memory_bank(request: Request) -> Reply:
    new = parse(request, RegisterMemoryBank).to_bank()
    bank = request.use_cases.banks.register(request.caller, new, request.provider_data, request.attempt)
    return reply(memory_bank_of(bank))


ROUTE = Route(
    "POST",
    "/v1/memory-banks",
    register_memory_bank,
    MemoryBank,
    RegisterMemoryBank,
    raises=(AlreadyRegistered, ModelBusy, ModelError, ModelTimedOut),
)
handler = LambdaHandler(__name__, ROUTE, loads="banks")
