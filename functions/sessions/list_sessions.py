"""GET /v1/agents/{agent_id}/sessions: the sessions of an agent that the caller may see, without turns, oldest first."""

from turnstone.dialects.llama_stack.lists import HEAD, QUERY, Page, list_query, page_tail, session_entry
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import PiecesReply, joined
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_sessions(request: Request) -> PiecesReply:
    query = list_query(request.query)
    listing = request.use_cases.sessions.list(request.caller, request.path_params["agent_id"], query)
    entries = (session_entry(entry.fields) for entry in listing)
    return PiecesReply(
        joined(HEAD, entries, lambda: page_tail(request.path, listing.cursor, has_more=listing.has_more))
    )


ROUTE = Route("GET", "/v1/agents/{agent_id}/sessions", list_sessions, Page, query=QUERY)
handler = LambdaHandler(__name__, ROUTE, loads="sessions")
