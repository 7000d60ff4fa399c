"""POST /letta/v1/tools/run: run a function of Python that is not stored, where tools of Python are on."""

from turnstone.dialects.letta.custom.requests import RunTool
from turnstone.dialects.letta.custom.results import ToolRunResult, run_result_of
from turnstone.domain.errors import Overloaded
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, reply
from turnstone.http.request import Request, parse
from turnstone.http.route import Route


def run_letta_tool(request: Request) -> Reply:
    body = parse(request, RunTool)
    run = request.use_cases.python_tools.run_source(request.caller, body.to_run(), request.stop)
    return reply(run_result_of(run))


PATH, RAISES = "/letta/v1/tools/run", (Overloaded,)
ROUTE = Route(
    "POST",
    PATH,
    run_letta_tool,
    ToolRunResult,
    RunTool,
    raises=RAISES,
    stores=False,
    dialect=LETTA,
    is_cancellable=True,
)
handler = LambdaHandler(__name__, ROUTE, loads="python_tools")
