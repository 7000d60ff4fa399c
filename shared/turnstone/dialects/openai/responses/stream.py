"""A response on the wire: whole, or as the server-sent events of its growth.

Source: the types of `openai` 3.54.0. Each event has its type in an `event:` line and a number from 0 on, without gaps;
an event of the type `error` is flat, because the client takes a field `error` for the end of the stream.
"""

from collections.abc import Callable, Iterable
from typing import Any

from pydantic_core import to_json

from turnstone.dialects.openai.responses.folding import ResponseFold, response_of
from turnstone.dialects.openai.responses.output.text_items import Event
from turnstone.dialects.openai.responses.shown import ImageAt, ShownResponse
from turnstone.domain.refs import TurnRef
from turnstone.domain.responses.requests import StoredResponse
from turnstone.domain.turns.events import Numbered, TurnStarted
from turnstone.domain.turns.turns import TurnState

EventsOf = Callable[[TurnState], Iterable[Numbered]]
ImagesOf = Callable[[TurnRef], ImageAt]
NONE = -1


class ResponseStream:
    """Encodes one stream of a response.

    The numbers depend on the turn's events alone, so a replay repeats them. Events of the turn from its first one on
    may come a second time; those that this stream has sent are left out.
    """

    reads_details = True

    def __init__(
        self, shown: ShownResponse, after: int = NONE, doubtful_after: Callable[[], int | None] = lambda: None
    ) -> None:
        """Take the last number that the client has received, and a function that returns the turn's doubtful events.

        Those after that number of the turn may never have been stored, and the events with their numbers are sent.
        """
        self._shown = shown
        self._doubtful_after = doubtful_after
        self._is_doubted = False
        self._after = after
        self._last = NONE
        self._fold = ResponseFold(shown)
        self._number = 0

    def encode(self, numbered: Numbered, /) -> bytes:
        if type(numbered.event) is TurnStarted and self._number:
            self._begin_again()
        self._doubt(numbered)
        return b"".join(map(self._data, self._fold.received(numbered.event)))

    def stopped(self, message: str, /) -> bytes:
        return self._error({"type": "error", "code": "server_stopping", "message": message, "param": None})

    def _begin_again(self) -> None:
        self._after = max(self._after, self._last)
        self._fold = ResponseFold(self._shown)
        self._number = 0

    def _doubt(self, numbered: Numbered) -> None:
        """Send the events again that the client may have received in another form."""
        if self._is_doubted or numbered.number is None:
            return
        doubtful_after = self._doubtful_after()
        if doubtful_after is not None and numbered.number > doubtful_after:
            self._is_doubted = True
            self._after = max(self._last, min(self._after, self._number - 1))

    def _data(self, event: Event) -> bytes:
        if event["type"] == "error":
            return self._error(event)
        number = self._number
        self._number += 1
        if number <= self._after:
            return b""
        self._last = number
        return _sse(event, number)

    def _error(self, event: Event) -> bytes:
        """Return the end of this stream alone. It has no number of its own: a client continues after its last one."""
        return _sse(event, max(self._after, self._last, 0))


def _sse(event: Event, number: int) -> bytes:
    data = to_json({**event, "sequence_number": number})
    return b"event: " + str(event["type"]).encode() + b"\ndata: " + data + b"\n\n"


def stream_from(
    stored: StoredResponse,
    image_at: ImagesOf,
    after: int = NONE,
    doubtful_after: Callable[[], int | None] = lambda: None,
) -> ResponseStream:
    """Return the encoder of a stream of the stored response; for its fields see `ResponseStream`."""
    return ResponseStream(ShownResponse(stored.ref, stored.sent, image_at(stored.ref)), after, doubtful_after)


def whole(shown: ShownResponse, state: TurnState, events_of: EventsOf) -> bytes:
    """Return the JSON of the response of a turn in its state."""
    return to_json(response_of(shown, state, events_of(state)))


def stored_whole(stored: StoredResponse, events_of: EventsOf, image_at: ImagesOf) -> bytes:
    """Return the JSON of the stored response."""
    return to_json(response_in(stored, events_of, image_at))


def response_in(stored: StoredResponse, events_of: EventsOf, image_at: ImagesOf) -> dict[str, Any]:
    """Return the stored response."""
    shown = ShownResponse(stored.ref, stored.sent, image_at(stored.ref))
    return response_of(shown, stored.state, events_of(stored.state), is_queued=stored.is_queued)


def encoder_of(shown: ShownResponse, events_of: EventsOf) -> Callable[[TurnState], bytes]:
    """Return the function that writes the response of a turn in its state."""
    return lambda state: whole(shown, state, events_of)
