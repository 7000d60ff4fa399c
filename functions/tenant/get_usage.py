"""GET /v1/usage: the tokens that agents and sessions spent, day by day, and their cost."""

from turnstone.dialects.llama_stack.usage_requests import QUERY, usage_in_query
from turnstone.domain.errors import NotFound, StoreUnavailable
from turnstone.domain.usage.usage_report import UsageReport
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_usage(request: Request) -> Reply:
    return reply(request.use_cases.usage.report(request.caller, usage_in_query(request.query)))


ROUTE = Route("GET", "/v1/usage", get_usage, UsageReport, query=QUERY, raises=(NotFound, StoreUnavailable))
handler = LambdaHandler(__name__, ROUTE, loads="usage")
