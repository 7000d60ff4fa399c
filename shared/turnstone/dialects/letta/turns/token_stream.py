"""A turn of Letta's API as server-sent events with its tokens: fragments of messages, which together are the messages.

The thoughts and the message to the user are read from the arguments of a call while the model writes them.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from turnstone.dialects.letta.messages import (
    BETWEEN,
    THOUGHTS,
    AnswerTool,
    AssistantNote,
    CalledPart,
    Note,
    ReasoningNote,
    ToolCallNote,
    ToolCallPart,
)
from turnstone.dialects.letta.turns.stream import LettaStream, lines
from turnstone.domain.models.requests import ArgumentsChunk, CallBegun, Piece
from turnstone.domain.turns.events import Numbered, StepCompleted, StepDetailed, StepProgressed, StepStarted, TextDelta
from turnstone.domain.values.ids import moment_of
from turnstone.domain.values.partial_json import Fragment, PartialObject

NotePart = Note | ToolCallPart


class LettaTokenStream(LettaStream):
    """Encodes one stream of a turn, with the parts of its inferences.

    The date of a fragment is the end of the step before, because the inference has not ended.
    """

    reads_details = True

    def __init__(self, turn_id: str, inputs: int, answers_by: AnswerTool) -> None:
        super().__init__(turn_id, inputs, answers_by)
        self._answers_by = answers_by
        self._at = moment_of(turn_id)
        self._open: GrowingMessages | None = None

    def encode(self, numbered: Numbered, /) -> bytes:
        event = numbered.event
        match event:
            case StepStarted(step_type="inference"):
                before, self._open = self._open, self._begun()
                if before is not None:
                    self._open.follows(before)
                return b""
            case StepProgressed(step_type="inference", delta=TextDelta(text=text)) if self._open is not None:
                return lines(self._open.spoke(text))
            case StepDetailed(piece=piece) if self._open is not None:
                return lines(self._open.called(piece))
            case StepCompleted():
                return self._completed(event)
            case _:
                return super().encode(numbered)

    def _begun(self) -> "GrowingMessages":
        return GrowingMessages(self._rows.next_inference, self._at, self._answers_by)

    def _completed(self, event: StepCompleted) -> bytes:
        notes = list(self.notes_of(event.step_details))
        self._at = event.step_details.completed_at or self._at
        if event.step_type != "inference" or self._open is None:
            return lines(notes)
        growing, self._open = self._open, None
        return lines(growing.rest_of(notes))


class GrowingMessages:
    """The messages of one inference while they grow: its thoughts, and its first call; later calls are shown whole."""

    def __init__(self, shown_id: str, at: datetime, answers_by: AnswerTool) -> None:
        self._id = shown_id
        self._at = at
        self._answers_by = answers_by
        self._is_silent = False
        self._spaces = ""
        self._speaks: Literal["text", "thoughts"] | None = None
        self._begun: CallBegun | None = None
        self._arguments: PartialObject | None = None
        self._reasoning = ""
        self._kind: Literal["answer", "call"] | None = None
        self._call = ""

    def follows(self, before: "GrowingMessages") -> None:
        """Show only what an inference that was not stored has not shown: this one is shown once it has ended."""
        self._is_silent = True
        self._reasoning, self._kind, self._call = before._reasoning, before._kind, before._call

    def spoke(self, text: str) -> Iterator[NotePart]:
        """Yield the fragments of a part of the answer's text; spaces alone are no message."""
        text = self._spaces + text
        self._spaces = ""
        if self._speaks != "text" and not text.strip():
            self._spaces = text
        else:
            yield from self._reasons("text", text)

    def called(self, piece: Piece) -> Iterator[NotePart]:
        """Yield the fragments of a part of a call."""
        match piece:
            case CallBegun(index=0, name=name):
                chosen = {THOUGHTS, self._answers_by.argument} if self._is_answer(name) else {THOUGHTS}
                self._begun, self._arguments = piece, PartialObject(chosen)
            case ArgumentsChunk(index=0, text=text) if self._arguments is not None and self._begun is not None:
                for fragment in self._arguments.feed(text):
                    yield from self._grown(self._begun, fragment)

    def rest_of(self, whole: list[Note]) -> Iterator[NotePart]:
        """Yield what the fragments lack of the whole messages."""
        first_call = next((note for note in whole if isinstance(note, AssistantNote | ToolCallNote)), None)
        for note in whole:
            is_grown = note is first_call or isinstance(note, ReasoningNote)
            part = self._part_of(note) if is_grown else None
            if part is None:
                yield note
            elif (text := _text_in(note)).startswith(part):
                if rest := text[len(part) :]:
                    yield self._note(note, rest)
            elif self._is_silent:  # the inference that was shown is not the one that is stored
                yield note

    def _part_of(self, note: Note) -> str | None:
        """Return the part of the message that is shown already, None for nothing."""
        match note:
            case ReasoningNote():
                return self._reasoning or None
            case AssistantNote():
                return self._call if self._kind == "answer" else None
            case ToolCallNote(tool_call=called) if (
                self._begun is not None and called.tool_call_id == self._begun.call_id
            ):
                return self._call if self._kind == "call" else None
            case _:
                return None

    def _grown(self, begun: CallBegun, fragment: Fragment) -> Iterator[NotePart]:
        if self._is_silent:
            return
        if fragment.member == THOUGHTS:
            yield from self._reasons("thoughts", fragment.text)
        is_answer = self._is_answer(begun.name)
        if is_answer and fragment.member == self._answers_by.argument:
            self._kind = "answer"
            self._call += fragment.text
            yield AssistantNote(id=self._id, date=self._at, assistant_message=fragment.text)
        elif not is_answer and fragment.member is None:
            if self._kind is None:
                self._kind = "call"
                yield self._part(name=begun.name, tool_call_id=begun.call_id)
            self._call += fragment.text
            yield self._part(arguments=fragment.text)

    def _reasons(self, source: Literal["text", "thoughts"], text: str) -> Iterator[NotePart]:
        if self._is_silent:
            return
        if self._speaks not in (None, source):
            text = BETWEEN + text
        self._speaks = source
        self._reasoning += text
        yield ReasoningNote(id=self._id, date=self._at, reasoning=text)

    def _note(self, whole: Note, rest: str) -> NotePart:
        """Return the last fragment of a message."""
        match whole:
            case ReasoningNote():
                return ReasoningNote(id=self._id, date=self._at, reasoning=rest)
            case AssistantNote():
                return AssistantNote(id=self._id, date=self._at, assistant_message=rest)
            case _:
                return self._part(arguments=rest)

    def _part(self, **fields: str) -> ToolCallPart:
        return ToolCallPart(id=self._id, date=self._at, tool_call=CalledPart(**fields))

    def _is_answer(self, name: str) -> bool:
        return bool(self._answers_by.name) and name == self._answers_by.name


def _text_in(note: Note) -> str:
    """Return the text of a message of which fragments are shown."""
    match note:
        case ReasoningNote(reasoning=text) | AssistantNote(assistant_message=text):
            return text
        case ToolCallNote(tool_call=called):
            return called.arguments
        case _:
            return ""
