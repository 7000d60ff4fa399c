"""GET …/turn/{turn_id}/events: a turn's events with their numbers, from one on, and until it ends or pauses."""

from turnstone.dialects.llama_stack.turns.event_numbers import QUERY, last_event_received
from turnstone.dialects.llama_stack.turns.stream import TurnStreamWithIds
from turnstone.domain.turns.turns import Turn
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.replies import TurnStreamReply
from turnstone.http.request import Request
from turnstone.http.route import Route


def get_events(request: Request) -> TurnStreamReply:
    after = last_event_received(request.query, request.headers)
    broadcast = request.use_cases.events.follow(request.caller, request.turn_ref, after)
    return TurnStreamReply(broadcast, TurnStreamWithIds(), is_cursor=True)


PATH = "/v1/agents/{agent_id}/session/{session_id}/turn/{turn_id}/events"
ROUTE = Route("GET", PATH, get_events, Turn, query=QUERY)
handler = LambdaHandler(__name__, ROUTE, loads="events")
