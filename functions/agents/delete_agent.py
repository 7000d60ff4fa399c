"""DELETE /v1/agents/{agent_id}: delete an agent with all its sessions."""

from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, done
from turnstone.http.request import Request
from turnstone.http.route import NoContent, Route


def delete_agent(request: Request) -> Reply:
    request.use_cases.deleting.delete_agent(request.caller, request.path_params["agent_id"])
    return done()


ROUTE = Route("DELETE", "/v1/agents/{agent_id}", delete_agent, NoContent)
handler = LambdaHandler(__name__, ROUTE, loads="deleting")
