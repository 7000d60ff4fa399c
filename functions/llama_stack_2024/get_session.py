"""POST /agents/session/get: a session with its turns, or some of them; the ids may stand in the query, too."""

from turnstone.dialects.llama_stack.turns.replies import session_head
from turnstone.dialects.llama_stack_2024.replies import wire_2024
from turnstone.dialects.llama_stack_2024.requests import SessionWanted, named_in_query, query_of
from turnstone.dialects.llama_stack_2024.session_replies import Session2024, session_tail_2024
from turnstone.domain.errors import NotFound
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LLAMA_STACK_2024
from turnstone.http.replies import PiecesReply, joined
from turnstone.http.request import Request, checked, json_of
from turnstone.http.route import Route


def get_session(request: Request) -> PiecesReply:
    body = json_of(request.body or b"{}")
    in_query = named_in_query(request.query, *QUERY)
    query = checked({**in_query, **body} if isinstance(body, dict) else body, SessionWanted)
    ref = query.ref(request.caller.tenant)
    session, turns = request.use_cases.sessions.read(request.caller, ref, query.turn_ids)
    bank = request.use_cases.banks.of_session(request.caller, session)
    wires = map(wire_2024, turns)
    return PiecesReply(joined(session_head(session), wires, lambda: session_tail_2024(session, turns.lost, bank)))


QUERY = query_of(optional=("agent_id", "session_id"))
ROUTE = Route(
    "POST",
    "/agents/session/get",
    get_session,
    Session2024,
    SessionWanted,
    query=QUERY,
    raises=(NotFound,),
    stores=False,
    dialect=LLAMA_STACK_2024,
)
handler = LambdaHandler(__name__, ROUTE, loads="sessions")
