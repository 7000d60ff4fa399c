"""POST /agents/step/get: one finished step of a turn, as clients of September 2024 request it."""

from turnstone.dialects.llama_stack_2024.read_requests import StepNamed
from turnstone.dialects.llama_stack_2024.replies import StepReply2024, step_2024
from turnstone.domain.errors import NotFound
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LLAMA_STACK_2024
from turnstone.http.replies import Reply, reply, restored
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def read_step(request: Request) -> Reply:
    query = parse(request, StepNamed)
    reader = request.use_cases.reader
    ref = query.ref(request.caller.tenant)
    read = reader.read(request.caller, ref) if ref else reader.search(request.caller, query.agent_id, query.turn_id)
    return restored(reply(StepReply2024(step=step_2024(read.step(query.step_id)))), read.restore)


ROUTE = Route(
    "POST",
    "/agents/step/get",
    read_step,
    StepReply2024,
    StepNamed,
    raises=(NotFound,),
    stores=False,
    dialect=LLAMA_STACK_2024,
)
handler = LambdaHandler(__name__, ROUTE, loads="reader")
