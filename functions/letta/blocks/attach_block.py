"""PATCH /letta/v1/blocks/{block_id}/attach: attach a memory block to an agent; one that it has changes nothing."""

from turnstone.dialects.letta.ids import bare
from turnstone.dialects.letta.lists import OF_AGENT, agent_in
from turnstone.domain.errors import LabelTaken
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import LETTA
from turnstone.http.replies import Reply, done
from turnstone.http.request import Request
from turnstone.http.route import NoContent, Route


def attach_block(request: Request) -> Reply:
    agent_id, block_id = agent_in(request.query), bare("block", request.path_params["block_id"])
    request.use_cases.blocks.attach(request.caller, agent_id, block_id)
    return done()


PATH = "/letta/v1/blocks/{block_id}/attach"
ROUTE = Route("PATCH", PATH, attach_block, NoContent, query=OF_AGENT, raises=(LabelTaken,), dialect=LETTA)
handler = LambdaHandler(__name__, ROUTE, loads="blocks")
