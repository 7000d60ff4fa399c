"""A turn's events on the Llama Stack wire.

Source: the Agents contract: `data:` lines only, no `event:`, no `[DONE]`; a failure is an error chunk.
"""

from pydantic_core import to_json

from turnstone.domain.turns.events import StepDetailed, TurnEvent, TurnFailed


def encode(event: TurnEvent) -> bytes:
    """Return the event as one server-sent event, nothing for a detail of a step."""
    if isinstance(event, StepDetailed):
        return b""
    if type(event) is TurnFailed:  # isinstance is slow with a pydantic model
        error = {"message": event.failure.message, "code": event.failure.code}
        return b"data: " + to_json({"error": error}) + b"\n\n"
    return b'data: {"event":{"payload":' + event.model_dump_json().encode() + b"}}\n\n"
