"""A turn of Letta's API as server-sent events: its messages step by step, then its usage, then `[DONE]`."""

from pydantic import RootModel
from pydantic_core import to_json

from turnstone.dialects.letta.messages import AnswerTool, LettaUsage, Note, Row, Rows, usage_of
from turnstone.domain.turns.events import Numbered, StepCompleted, TurnAwaitsInput, TurnCompleted, TurnFailed


class LettaEvent(RootModel[Note | LettaUsage]):
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
                rows = self._rows.of_step(event.step_details)
                return b"".join(_lines(row) for row in rows if not row.is_input)
            case TurnCompleted() | TurnAwaitsInput():
                return _data(usage_of(event.state).model_dump_json().encode()) + DONE
            case TurnFailed():
                return _data(to_json({"error": event.failure.message})) + DONE
            case _:
                return b""

    def stopped(self, message: str, /) -> bytes:
        return _data(to_json({"error": message})) + DONE


def _lines(row: Row) -> bytes:
    return b"".join(_data(note.model_dump_json().encode()) for note in row.notes)


def _data(json: bytes) -> bytes:
    return b"data: " + json + b"\n\n"
