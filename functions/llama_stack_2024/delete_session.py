"""POST /agents/session/delete: delete a session with its turns, as clients of September 2024 do."""

from turnstone.dialects.llama_stack_2024.requests import SessionNamed
from turnstone.domain.errors import NotFound
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LLAMA_STACK_2024
from turnstone.http.replies import Reply, null
from turnstone.http.request import Request, parse
from turnstone.http.route import Null, Route


def delete_session(request: Request) -> Reply:
    ref = parse(request, SessionNamed).ref(request.caller.tenant)
    request.use_cases.deleting.delete_session(request.caller, ref)
    return null()


ROUTE = Route(
    "POST",
    "/agents/session/delete",
    delete_session,
    Null,
    SessionNamed,
    raises=(NotFound,),
    stores=False,
    dialect=LLAMA_STACK_2024,
)
handler = LambdaHandler(__name__, ROUTE, loads="deleting")
