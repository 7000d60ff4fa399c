"""POST /agents/delete: delete an agent with all its sessions, as clients of September 2024 do."""

from turnstone.dialects.llama_stack_2024.requests import AgentNamed
from turnstone.domain.errors import NotFound
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LLAMA_STACK_2024
from turnstone.http.replies import Reply, null
from turnstone.http.request import Request, parse
from turnstone.http.route import Null, Route


def delete_agent(request: Request) -> Reply:
    request.use_cases.deleting.delete_agent(request.caller, parse(request, AgentNamed).agent_id)
    return null()


ROUTE = Route(
    "POST",
    "/agents/delete",
    delete_agent,
    Null,
    AgentNamed,
    raises=(NotFound,),
    stores=False,
    dialect=LLAMA_STACK_2024,
)
handler = LambdaHandler(__name__, ROUTE, loads="deleting")
