"""GET /v1/openai/v1/responses: the responses that the caller may see, newest first."""

from turnstone.dialects.openai.pages import EndIds
from turnstone.dialects.openai.responses import lists
from turnstone.domain.errors import StoreUnavailable
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import RESPONSES
from turnstone.http.replies import PiecesReply, joined
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_responses(request: Request) -> PiecesReply:
    query = lists.responses_in_query(request.query)
    responses = request.use_cases.responses
    listing, listed = responses.list(request.caller, query)
    ids = EndIds()
    wires = ids.noted(lists.listed_wires(listed, responses.events_of, responses.image_at))
    return PiecesReply(joined(lists.LIST_HEAD, wires, lambda: lists.list_tail(ids.first, ids.last, listing.has_more)))


PATH = "/v1/openai/v1/responses"
RAISES = (StoreUnavailable,)
ROUTE = Route(
    "GET",
    PATH,
    list_responses,
    lists.ResponseList,
    query=lists.RESPONSES_QUERY,
    raises=RAISES,
    dialect=RESPONSES,
    stores=False,
)
handler = LambdaHandler(__name__, ROUTE, loads="responses")
