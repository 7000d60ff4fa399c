"""DELETE /v1/agents/{agent_id}/session/{session_id}: delete a session with its turns, also one that runs."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, done
from turnstone.http.request import Request
from turnstone.http.route import NoContent, Route


def delete_session(request: Request) -> Reply:
    request.use_cases.deleting.delete_session(request.caller, request.session_ref)
    return done()


ROUTE = Route("DELETE", "/v1/agents/{agent_id}/session/{session_id}", delete_session, NoContent)
handler = LambdaHandler(__name__, ROUTE, loads="deleting")
