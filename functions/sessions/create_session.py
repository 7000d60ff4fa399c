"""POST /v1/agents/{agent_id}/session: open a session of an agent."""

from turnstone.dialects.llama_stack.replies import SessionCreated
from turnstone.dialects.llama_stack.requests import CreateSession
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def create_session(request: Request) -> Reply:
    body = parse(request, CreateSession)
    session_id = request.use_cases.sessions.create(
        request.caller, request.path_params["agent_id"], body.session_name, request.attempt, body.vector_db_id
    )
    return reply(SessionCreated(session_id=session_id))


ROUTE = Route("POST", "/v1/agents/{agent_id}/session", create_session, SessionCreated, CreateSession)
handler = LambdaHandler(__name__, ROUTE, loads="sessions")
