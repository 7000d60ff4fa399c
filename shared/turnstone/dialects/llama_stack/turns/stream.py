"""A turn's events on the Llama Stack wire.

Source: the Agents contract: `data:` lines only, no `event:`, no `[DONE]`; a failure is an error chunk.
"""

from pydantic_core import to_json

from turnstone.domain.turns.events import Numbered, StepDetailed, TurnFailed
from turnstone.domain.turns.failures import Failure


class TurnStream:
    """Encodes the events of one stream."""

    reads_details = False

    def encode(self, numbered: Numbered) -> bytes:
        """Return the event as one server-sent event, nothing for a detail of a step."""
        event = numbered.event
        if type(event) is TurnFailed:  # isinstance is slow with a pydantic model
            return error_chunk(event.failure)
        if isinstance(event, StepDetailed):
            return b""
        return b'data: {"event":{"payload":' + event.model_dump_json().encode() + b"}}\n\n"

    def stopped(self, message: str) -> bytes:
        return error_chunk(Failure(kind="handed_over", message=message))


class TurnStreamWithIds(TurnStream):
    """Encodes the events of one stream with their numbers as ids, from which a client that reconnects continues."""

    def encode(self, numbered: Numbered) -> bytes:
        data = TurnStream.encode(self, numbered)
        return data if numbered.number is None or not data else b"id: %d\n" % numbered.number + data


def error_chunk(failure: Failure) -> bytes:
    """Return the server-sent event of a stream that ends without its turn's answer."""
    return b"data: " + to_json({"error": {"message": failure.message, "code": failure.code}}) + b"\n\n"
