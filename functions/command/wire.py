"""Events of turns, parsed from a stream of bytes, with their numbers if the stream has them."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]
ENDINGS = ("turn_complete", "turn_awaiting_input")


@dataclass(frozen=True)
class StreamEvent:
    """An event of a turn.

    Attributes:
        text: its JSON as it was sent.
        payload: empty for an error.
        error: message of the server for a stream that ends without an answer.
        number: its number in the turn, None if the stream has none.
    """

    text: str
    payload: Json
    error: str | None = None
    number: int | None = None

    @property
    def kind(self) -> str:
        return str(self.payload.get("event_type", ""))

    @property
    def turn(self) -> Json | None:
        """The turn of the last event of a run."""
        return self.payload["turn"] if self.kind in ENDINGS else None


def events_in(pieces: Iterable[bytes]) -> Iterator[StreamEvent]:
    """Yield the events, however the bytes are split; one that the stream's end cuts is dropped.

    Source: https://html.spec.whatwg.org/multipage/server-sent-events.html, as far as the server uses it.
    Raises ValueError for any other event.
    """
    number: int | None = None
    for line in _lines(pieces):
        name, _, value = line.partition(": ")
        if name == "id":
            number = int(value)
        elif name == "data":
            yield _event(value, number)
            number = None


def _event(text: str, number: int | None) -> StreamEvent:
    match json.loads(text):
        case {"event": {"payload": {"event_type": str()} as payload}}:
            return StreamEvent(text, payload, None, number)
        case {"error": {"message": str(message)}}:
            return StreamEvent(text, {}, message, number)
    raise ValueError("not an event of a turn")


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    rest: list[bytes] = []
    for piece in pieces:
        *whole, last = piece.split(b"\n")
        for line in whole:
            yield b"".join([*rest, line]).decode("utf-8", "replace").rstrip("\r")
            rest.clear()
        rest.append(last)


def text_of(content: object) -> str:
    """Return the text of a message's content, with the type of each other part in brackets."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        return str(content["text"]) if content.get("type") == "text" else f"[{content.get('type', 'unknown')}]"
    return "\n".join(map(text_of, content)) if isinstance(content, list) else ""
