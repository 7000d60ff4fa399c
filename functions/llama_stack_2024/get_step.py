"""GET /agents/step/get: one finished step of a turn, by the ids in the query."""

from turnstone.dialects.llama_stack_2024.read_requests import StepNamed
from turnstone.dialects.llama_stack_2024.replies import StepReply2024, step_2024
from turnstone.dialects.llama_stack_2024.requests import named_in_query, query_of
from turnstone.domain.errors import NotFound, StoreUnavailable
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LLAMA_STACK_2024
from turnstone.http.replies import Reply, reply, restored
from turnstone.http.request import Request, checked
from turnstone.http.route import Route


def get_step(request: Request) -> Reply:
    query = checked(named_in_query(request.query, *QUERY), StepNamed)
    reader = request.use_cases.reader
    ref = query.ref(request.caller.tenant)
    read = reader.read(request.caller, ref) if ref else reader.search(request.caller, query.agent_id, query.turn_id)
    return restored(reply(StepReply2024(step=step_2024(read.step(query.step_id)))), read.restore)


QUERY = query_of("agent_id", "turn_id", "step_id", optional=("session_id",))
ROUTE = Route(
    "GET",
    "/agents/step/get",
    get_step,
    StepReply2024,
    query=QUERY,
    raises=(NotFound, StoreUnavailable),
    dialect=LLAMA_STACK_2024,
)
handler = LambdaHandler(__name__, ROUTE, loads="reader")
