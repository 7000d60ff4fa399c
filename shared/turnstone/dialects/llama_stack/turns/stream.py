"""A turn's events on the Llama Stack wire.

Source: the Agents contract: `data:` lines only, no `event:`, no `[DONE]`; a failure is an error chunk.
"""

from pydantic_core import to_json

from turnstone.domain.turns.events import Numbered, StepDetailed, StepProgressed, TextDelta, TurnFailed
from turnstone.domain.turns.failures import Failure
from turnstone.domain.values.frozen import Frozen

NO_TEXT = TextDelta.model_construct(text="")  # no validation while the module loads


class TurnStream:
    """Encodes the events of one stream."""

    reads_details = False

    def __init__(self) -> None:
        self._step_id: str | None = None
        self._before = self._after = b""

    def encode(self, numbered: Numbered) -> bytes:
        """Return the event as one server-sent event, nothing for a detail of a step."""
        event = numbered.event
        if type(event) is TurnFailed:  # isinstance is slow with a pydantic model
            return error_chunk(event.failure)
        if type(event) is StepProgressed and type(event.delta) is TextDelta:
            return self._text(event, event.delta.text)
        if isinstance(event, StepDetailed):
            return b""
        return _whole(event)

    def _text(self, event: StepProgressed, text: str) -> bytes:
        """Return the event of a text; the events of a step differ in nothing else."""
        if event.step_id != self._step_id:
            self._step_id = event.step_id
            self._before, self._after = _whole(event.model_copy(update={"delta": NO_TEXT})).rsplit(b'""', 1)
        return self._before + to_json(text) + self._after

    def stopped(self, message: str) -> bytes:
        return error_chunk(Failure(kind="handed_over", message=message))


def _whole(event: Frozen) -> bytes:
    return b'data: {"event":{"payload":' + event.model_dump_json().encode() + b"}}\n\n"


class TurnStreamWithIds(TurnStream):
    """Encodes the events of one stream with their numbers as ids, from which a client that reconnects continues."""

    def encode(self, numbered: Numbered) -> bytes:
        data = TurnStream.encode(self, numbered)
        return data if numbered.number is None or not data else b"id: %d\n" % numbered.number + data


def error_chunk(failure: Failure) -> bytes:
    """Return the server-sent event of a stream that ends without its turn's answer."""
    return b"data: " + to_json({"error": {"message": failure.message, "code": failure.code}}) + b"\n\n"
