"""POST /v1/vector-dbs: register a vector database."""

from turnstone.dialects.llama_stack.memory.vector_dbs import RegisterVectorDb, VectorDb, vector_db_of
from turnstone.domain.errors import AlreadyRegistered, ModelBusy, ModelError, ModelTimedOut
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def register_vector_db(request: Request) -> Reply:
    new = parse(request, RegisterVectorDb).to_bank()
    bank = request.use_cases.banks.register(request.caller, new, request.provider_data, request.attempt)
    return reply(vector_db_of(bank))


ROUTE = Route(
    "POST",
    "/v1/vector-dbs",
    register_vector_db,
    VectorDb,
    RegisterVectorDb,
    raises=(AlreadyRegistered, ModelBusy, ModelError, ModelTimedOut),
)
handler = LambdaHandler(__name__, ROUTE, loads="banks")
