"""A response folded from the events of its turn: the events of its stream, and the response itself.

The fold depends on the events and on the request alone, without a clock or random ids: the same events make the same
response in any process.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from turnstone.dialects.openai.responses.output_items import (
    Event,
    OpenFunctionCall,
    OpenItem,
    OpenMessage,
    OpenReasoning,
    OpenRefusal,
)
from turnstone.dialects.openai.responses.shown import ShownResponse
from turnstone.domain.models.requests import ArgumentsChunk, CallBegun, Piece, ReasoningChunk
from turnstone.domain.responses.addresses import item_id
from turnstone.domain.responses.removal import place_of
from turnstone.domain.tools.tools import ToolCall
from turnstone.domain.turns.events import (
    Numbered,
    StepCompleted,
    StepDetailed,
    StepProgressed,
    StepStarted,
    TextDelta,
    TurnCompleted,
    TurnEvent,
    TurnFailed,
    TurnStarted,
)
from turnstone.domain.turns.turns import InferenceStep, ShieldCallStep, TurnState, TurnStatus
from turnstone.domain.values.content import text_of

JUDGED_WHOLE = ("user-input", "assistant-output")


class ResponseFold:
    """The response so far, fed with each event once and in order."""

    def __init__(self, shown: ShownResponse) -> None:
        self._shown = shown
        self._turn_id = shown.ref.turn_id
        self._items: list[OpenItem] = []
        self._ended: list[OpenItem] = []
        self._spoken: OpenItem | None = None
        self._calls: dict[int, OpenFunctionCall] = {}
        self.response: dict[str, Any] = shown.begun()

    def received(self, event: TurnEvent) -> Iterator[Event]:
        """Yield the events of the response, without their numbers, that this event of the turn causes."""
        match event:
            case TurnStarted():
                yield {"type": "response.created", "response": self.response}
                yield {"type": "response.in_progress", "response": self.response}
            case StepStarted(step_type="inference"):
                self._forget_unfinished()
            case StepDetailed(piece=piece):
                yield from self._detailed(piece)
            case StepProgressed(delta=TextDelta(text=text)) if text:
                yield from self._text(OpenMessage, text)
            case StepCompleted(step_details=InferenceStep() as step):
                yield from self._inferred(step)
            case TurnCompleted(state=state):
                yield from self._completed(state)
            case TurnFailed():
                yield from self._failed(event)
            case _:
                return

    def _detailed(self, piece: Piece) -> Iterator[Event]:
        match piece:
            case ReasoningChunk(text=text):
                if text:
                    yield from self._text(OpenReasoning, text)
            case CallBegun(index=index, call_id=call_id, name=name):
                if self._shown.is_clients(name) and not (index and self._shown.sent.takes_one_call):
                    yield from self._fall_silent()
                    self._calls[index] = OpenFunctionCall(self._turn_id, len(self._items), call_id, name)
                    yield from self._begun(self._calls[index])
            case ArgumentsChunk(index=index, text=text):
                if index in self._calls and text:
                    yield from self._calls[index].grown(text)

    def _text(self, kind: type[OpenMessage] | type[OpenReasoning], text: str) -> Iterator[Event]:
        if type(self._spoken) is not kind:
            yield from self._fall_silent()
            self._spoken = kind(self._turn_id, len(self._items))
            yield from self._begun(self._spoken)
        assert self._spoken is not None  # noqa: S101 - assigned above
        yield from self._spoken.grown(text)

    def _begun(self, item: OpenItem) -> Iterator[Event]:
        self._items.append(item)
        if removed := self._shown.sent.removed:
            item.item_id = item_id(item.kind, self._turn_id, place_of(item.index, removed))
        yield from item.begun()

    def _fall_silent(self) -> Iterator[Event]:
        """End the message or the reasoning that is open."""
        if self._spoken is not None:
            yield from self._spoken.ended()
            self._ended.append(self._spoken)
            self._spoken = None

    def _inferred(self, step: InferenceStep) -> Iterator[Event]:
        answer = step.model_response
        is_cut_off = answer.stop_reason == "out_of_tokens"
        if self._spoken is not None and is_cut_off and not self._calls:
            yield from self._spoken.ended("incomplete")
            self._ended.append(self._spoken)
            self._spoken = None
        yield from self._fall_silent()
        yield from self._unstreamed(answer.tool_calls)
        for index, open_call in self._calls.items():
            call = answer.tool_calls[index] if index < len(answer.tool_calls) else None
            if call is not None and call.arguments_json and call.arguments_json != open_call.text:
                rest = call.arguments_json.removeprefix(open_call.text)
                yield from open_call.grown(rest)
            open_call.is_dropped = is_cut_off or call is None or isinstance(call.arguments, str)
            yield from open_call.ended("incomplete" if open_call.is_dropped else "completed")
            self._ended.append(open_call)
        self._calls = {}

    def _unstreamed(self, calls: Sequence[ToolCall]) -> Iterator[Event]:
        """Begin the client's calls that the model's provider did not stream."""
        for index, call in enumerate(calls):
            if index not in self._calls and self._shown.is_clients(call.tool_name):
                self._calls[index] = OpenFunctionCall(self._turn_id, len(self._items), call.call_id, call.tool_name)
                yield from self._begun(self._calls[index])

    def _forget_unfinished(self) -> None:
        """Forget the items of an inference that was not stored; they begin again."""
        self._spoken, self._calls = None, {}
        self._items = list(self._ended)

    def _completed(self, state: TurnState) -> Iterator[Event]:
        if (refusal := _refusal_in(state)) is not None:
            item = OpenRefusal(self._turn_id, len(self._items))
            yield from self._begun(item)
            yield from item.grown(refusal)
            yield from item.ended()
            self._ended.append(item)
        self.response = self._shown.ended(state, self.output)
        yield {"type": f"response.{self.response['status']}", "response": self.response}

    def _failed(self, event: TurnFailed) -> Iterator[Event]:
        if event.status is None or event.state is None:  # only this stream ends
            code, message = event.failure.code.value, event.failure.message
            yield {"type": "error", "code": code, "message": message, "param": None}
            return
        self.response = self._shown.ended(event.state, self.output)
        yield {"type": "response.failed", "response": self.response}

    @property
    def output(self) -> list[dict[str, Any]]:
        """The finished items, in their order."""
        return [each.item for each in sorted(self._ended, key=lambda each: each.index) if not each.is_dropped]


def response_of(shown: ShownResponse, state: TurnState, events: Iterable[Numbered]) -> dict[str, Any]:
    """Return the response of a turn in this state, from the events of the turn so far."""
    fold = ResponseFold(shown)
    for each in events:
        for _ in fold.received(each.event):
            pass
    if state.status.is_terminal:
        return fold.response
    return {**shown.begun(), "output": fold.output}


def _refusal_in(state: TurnState) -> str | None:
    """Return the text of the shield that stopped the turn, None if none did."""
    if state.status is not TurnStatus.COMPLETED:
        return None
    for step, trace in zip(state.turn.steps, state.traces, strict=False):
        if isinstance(step, ShieldCallStep) and step.has_stopped and trace.touchpoint in JUDGED_WHOLE:
            return text_of(state.turn.output_message.content) or "refused"
    return None
