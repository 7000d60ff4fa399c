"""A turn of Letta's API as server-sent events: its messages step by step, then its usage, then `[DONE]`."""

from collections.abc import Iterable, Iterator

from pydantic import RootModel
from pydantic_core import to_json

from turnstone.dialects.letta.messages import AnswerTool, LettaUsage, Note, Rows, ToolCallPart, usage_of
from turnstone.domain.turns.events import Numbered, StepCompleted, TurnAwaitsInput, TurnCompleted, TurnFailed
from turnstone.domain.turns.turns import Step


class LettaEvent(RootModel[Note | ToolCallPart | LettaUsage]):
    """One event of a stream; the last one is the text `[DONE]`."""


DONE = b"data: [DONE]\n\n"


class LettaStream:
    """Encodes one stream of a turn."""

    reads_details = False

    def __init__(self, turn_id: str, inputs: int, answers_by: AnswerTool) -> None:
        """Take the number of messages that were sent, whose rows come before those of the steps."""
        self._rows = Rows(turn_id, answers_by, hides_answers=True)
        self._rows.skip(inputs)

    def encode(self, numbered: Numbered, /) -> bytes:
        event = numbered.event
        match event:
            case StepCompleted():
                return lines(self.notes_of(event.step_details))
            case TurnCompleted() | TurnAwaitsInput():
                return _data(usage_of(event.state).model_dump_json().encode()) + DONE
            case TurnFailed():
                return _data(to_json({"error": event.failure.message})) + DONE
            case _:
                return b""

    def notes_of(self, step: Step) -> Iterator[Note]:
        """Yield the messages of a step."""
        for row in self._rows.of_step(step):
            if not row.is_input:
                yield from row.notes

    def stopped(self, message: str, /) -> bytes:
        return _data(to_json({"error": message})) + DONE


def lines(notes: Iterable[Note | ToolCallPart]) -> bytes:
    """Return the messages as events."""
    return b"".join(_data(note.model_dump_json().encode()) for note in notes)


def _data(json: bytes) -> bytes:
    return b"data: " + json + b"\n\n"
