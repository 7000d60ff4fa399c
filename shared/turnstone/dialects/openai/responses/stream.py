"""A response on the wire: whole, or as the server-sent events of its growth.

Source: the types of `openai` 3.54.0. Each event has its type in an `event:` line and a number from 0 on, without gaps;
an event of the type `error` is flat, because the client takes a field `error` for the end of the stream.
"""

from collections.abc import Callable, Iterable

from pydantic_core import to_json

from turnstone.dialects.openai.responses.folding import ResponseFold, response_of
from turnstone.dialects.openai.responses.output.text_items import Event
from turnstone.dialects.openai.responses.shown import ShownResponse
from turnstone.domain.turns.events import Numbered
from turnstone.domain.turns.turns import TurnState

EventsOf = Callable[[TurnState], Iterable[Numbered]]


class ResponseStream:
    """Encodes one stream of a response."""

    reads_details = True

    def __init__(self, shown: ShownResponse) -> None:
        self._fold = ResponseFold(shown)
        self._number = 0

    def encode(self, numbered: Numbered, /) -> bytes:
        return b"".join(map(self._data, self._fold.received(numbered.event)))

    def stopped(self, message: str, /) -> bytes:
        return self._data({"type": "error", "code": "server_stopping", "message": message, "param": None})

    def _data(self, event: Event) -> bytes:
        kind = str(event["type"])
        data = to_json({**event, "sequence_number": self._number})
        self._number += 1
        return b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"


def whole(shown: ShownResponse, state: TurnState, events_of: EventsOf) -> bytes:
    """Return the JSON of the response of a turn in its state."""
    return to_json(response_of(shown, state, events_of(state)))


def encoder_of(shown: ShownResponse, events_of: EventsOf) -> Callable[[TurnState], bytes]:
    """Return the function that writes the response of a turn in its state."""
    return lambda state: whole(shown, state, events_of)
