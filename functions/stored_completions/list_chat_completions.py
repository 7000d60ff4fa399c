"""GET /v1/openai/v1/chat/completions: the stored chat completions that the caller may see, newest first."""

from turnstone.dialects.openai.chat import stored_completions as wire
from turnstone.dialects.openai.pages import EndIds
from turnstone.domain.errors import StoreUnavailable
from turnstone.edge.gateway import LambdaHandler
from turnstone.http.dialects import OPENAI
from turnstone.http.replies import PiecesReply, joined
from turnstone.http.request import Request
from turnstone.http.route import Route


def list_chat_completions(request: Request) -> PiecesReply:
    query = wire.completions_in_query(request.query)
    listing, completions = request.use_cases.stored_completions.list(request.caller, query)
    ids = EndIds()
    wires = ids.noted(wire.listed_wires(completions))
    return PiecesReply(
        joined(wire.LIST_HEAD, wires, lambda: wire.list_tail(ids, listing.cursor, query, listing.has_more))
    )


PATH = "/v1/openai/v1/chat/completions"
RAISES = (StoreUnavailable,)
ROUTE = Route(
    "GET",
    PATH,
    list_chat_completions,
    wire.ChatCompletionList,
    query=wire.LIST_QUERY,
    raises=RAISES,
    dialect=OPENAI,
    stores=False,
)
handler = LambdaHandler(__name__, ROUTE, loads="stored_completions")
