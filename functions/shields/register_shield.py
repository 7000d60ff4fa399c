"""POST /v1/shields: register a shield, for agents to name."""

from turnstone.dialects.llama_stack.shields import RegisterShield
from turnstone.domain.registry.registry import Shield
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def register_shield(request: Request) -> Reply:
    body = parse(request, RegisterShield)
    shields = request.use_cases.shields
    return reply(shields.register(request.caller, body.to_shield(), request.attempt, body.given))


ROUTE = Route("POST", "/v1/shields", register_shield, Shield, RegisterShield)
handler = LambdaHandler(__name__, ROUTE, loads="shields")
