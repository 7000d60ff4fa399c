"""GET …/session/{session_id}/context: the turns, and the summary, that the session's next turn shows the model."""

from turnstone.domain.sessions.session_context import SessionContext
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_context(request: Request) -> Reply:
    return reply(request.use_cases.contexts.read(request.caller, request.session_ref))


ROUTE = Route("GET", "/v1/agents/{agent_id}/session/{session_id}/context", get_context, SessionContext)
handler = LambdaHandler(__name__, ROUTE, loads="contexts")
