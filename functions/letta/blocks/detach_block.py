"""PATCH /letta/v1/blocks/{block_id}/detach: detach a memory block from an agent."""

from turnstone.dialects.letta.ids import bare
from turnstone.dialects.letta.lists import OF_AGENT, agent_in
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, done
from turnstone.http.request import Request
from turnstone.http.route import NoContent, Route


def detach_block(request: Request) -> Reply:
    agent_id, block_id = agent_in(request.query), bare("block", request.path_params["block_id"])
    request.use_cases.blocks.detach(request.caller, agent_id, block_id)
    return done()


PATH = "/letta/v1/blocks/{block_id}/detach"
ROUTE = Route("PATCH", PATH, detach_block, NoContent, query=OF_AGENT, dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="blocks")
