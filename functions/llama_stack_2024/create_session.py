"""POST /agents/session/create: open a session of an agent, as clients of September 2024 do."""

from turnstone.dialects.llama_stack.replies import SessionCreated
from turnstone.dialects.llama_stack_2024.requests import CreateSession2024
from turnstone.domain.errors import NotFound
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LLAMA_STACK_2024
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def create_session(request: Request) -> Reply:
    body = parse(request, CreateSession2024)
    sessions = request.use_cases.sessions
    session_id = sessions.create(request.caller, body.agent_id, body.session_name, request.attempt)
    return reply(SessionCreated(session_id=session_id))


ROUTE = Route(
    "POST",
    "/agents/session/create",
    create_session,
    SessionCreated,
    CreateSession2024,
    raises=(NotFound,),
    dialect=LLAMA_STACK_2024,
)
handler = LambdaHandler(__name__, ROUTE, loads="sessions")
