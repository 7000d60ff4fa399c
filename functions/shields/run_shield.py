"""POST /v1/safety/run-shield: have a shield judge messages, outside of any turn."""

from turnstone.dialects.llama_stack.shields import RunShield, ShieldRun
from turnstone.domain.errors import NotFound
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def run_shield(request: Request) -> Reply:
    body = parse(request, RunShield)
    body.refuse_unsupported()
    keys = request.attempt.provider_data
    violation = request.use_cases.shields.run(request.caller, body.shield_id, body.messages, keys)
    return reply(ShieldRun(violation=violation))


ROUTE = Route("POST", "/v1/safety/run-shield", run_shield, ShieldRun, RunShield, raises=(NotFound,))
handler = LambdaHandler(__name__, ROUTE, loads="shields")
