"""Events of a turn in the streams of September 2024, with today's fields among them.

Source: the contract's file on that API, and the wire of `llama-stack-client` 0.0.40. Its turns had no awaiting state:
a turn that awaits its client is reported as complete, and continues with that client's tool messages.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from turnstone.dialects.llama_stack.turns.stream import error_chunk
from turnstone.dialects.llama_stack_2024.replies import Step2024, Turn2024, step_2024, turn_2024
from turnstone.domain.tools.tools import ToolCall
from turnstone.domain.turns.events import (
    Numbered,
    StepCompleted,
    StepDelta,
    StepDetailed,
    StepProgressed,
    StepStarted,
    TextDelta,
    ToolCallDelta,
    TurnAwaitsInput,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from turnstone.domain.turns.failures import Failure
from turnstone.domain.turns.turns import ToolExecutionStep
from turnstone.domain.values.content import text_of
from turnstone.domain.values.frozen import Frozen

ParseStatus = Literal["started", "in_progress", "failure", "success"]
PARSE_STATUS: dict[str, ParseStatus] = {
    "started": "started",
    "in_progress": "in_progress",
    "failed": "failure",
    "succeeded": "success",
}


class ToolCallDelta2024(Frozen):
    content: str | ToolCall
    parse_status: ParseStatus


class StepProgressed2024(StepProgressed):
    """Progress of a step in the names of that time; the logger of client 0.0.63 reads `text_delta`."""

    model_response_text_delta: str | None = None
    text_delta: str | None = None
    tool_call_delta: ToolCallDelta2024 | None = None
    tool_response_text_delta: str | None = None


class StepCompleted2024(StepCompleted):
    step_details: Step2024


class TurnCompleted2024(Frozen):
    event_type: Literal["turn_complete"] = "turn_complete"
    turn: Turn2024


Payload2024 = Annotated[
    TurnStarted | StepStarted | StepProgressed2024 | StepCompleted2024 | TurnCompleted2024,
    Field(discriminator="event_type"),
]


class Event2024(Frozen):
    payload: Payload2024


class TurnChunk2024(Frozen):
    event: Event2024


class TurnStream2024:
    """Encodes the events of one stream."""

    reads_details = False

    def __init__(self) -> None:
        self._running: str | None = None

    def encode(self, numbered: Numbered) -> bytes:
        """Return the event as server-sent events, usually one."""
        event = numbered.event
        if isinstance(event, TurnFailed):
            return error_chunk(event.failure)
        if isinstance(event, StepDetailed):
            return b""
        return b"".join(map(_data, self._payloads(event)))

    def stopped(self, message: str) -> bytes:
        return error_chunk(Failure(kind="handed_over", message=message))

    def _payloads(
        self, event: TurnStarted | StepStarted | StepProgressed | StepCompleted | TurnCompleted | TurnAwaitsInput
    ) -> Iterator[Payload2024]:
        match event:
            case TurnStarted():
                yield event
            case StepStarted():
                self._running = event.step_id
                yield event
            case StepProgressed(step_type=step_type, step_id=step_id, delta=delta):
                yield _progress(step_type, step_id, delta)
            case StepCompleted(step_details=step):
                # a step of the client is sent whole: its answers are the client's own
                if isinstance(step, ToolExecutionStep) and step.step_id == self._running:
                    for response in step.tool_responses:
                        yield _progress(event.step_type, event.step_id, TextDelta(text=text_of(response.content)))
                yield StepCompleted2024.model_construct(**{**dict(event), "step_details": step_2024(step)})
            case TurnCompleted(turn=turn) | TurnAwaitsInput(turn=turn):
                yield TurnCompleted2024.model_construct(turn=turn_2024(turn))


def _progress(
    step_type: Literal["inference", "tool_execution", "shield_call", "memory_retrieval"], step_id: str, delta: StepDelta
) -> StepProgressed2024:
    is_tools = step_type == "tool_execution"
    text = delta.text if isinstance(delta, TextDelta) else None
    call = None
    if isinstance(delta, ToolCallDelta):
        call = ToolCallDelta2024(content=delta.tool_call, parse_status=PARSE_STATUS[delta.parse_status])
    return StepProgressed2024(
        step_type=step_type,
        step_id=step_id,
        delta=delta,
        model_response_text_delta=None if is_tools else text,
        text_delta=None if is_tools else text,
        tool_call_delta=call,
        tool_response_text_delta=text if is_tools else None,
    )


def _data(payload: Payload2024) -> bytes:
    # built by hand, because its parts are validated already
    chunk = TurnChunk2024.model_construct(event=Event2024.model_construct(payload=payload))
    return b"data: " + chunk.model_dump_json().encode() + b"\n\n"
