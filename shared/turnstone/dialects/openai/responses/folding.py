"""A response folded from the events of its turn: the events of its stream, and the response itself.

The fold depends on the events and on the request alone, without a clock or random ids: the same events make the same
response in any process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from turnstone.dialects.openai.responses.output.call_items import OpenFunctionCall
from turnstone.dialects.openai.responses.output.text_items import (
    Annotation,
    Event,
    OpenItem,
    OpenMessage,
    OpenReasoning,
    OpenRefusal,
)
from turnstone.dialects.openai.responses.shown import ShownResponse
from turnstone.domain.models.requests import ArgumentsChunk, CallBegun, Piece, ReasoningChunk
from turnstone.domain.responses.addresses import item_id
from turnstone.domain.responses.removal import position_of
from turnstone.domain.tools.tools import ToolCall, ToolResponse
from turnstone.domain.turns.events import (
    Numbered,
    StepCompleted,
    StepDetailed,
    StepProgressed,
    StepStarted,
    TextDelta,
    ToolCallDelta,
    TurnCompleted,
    TurnEvent,
    TurnFailed,
    TurnStarted,
)
from turnstone.domain.turns.turns import InferenceStep, ShieldCallStep, ToolExecutionStep, TurnState, TurnStatus
from turnstone.domain.values.content import text_of

if TYPE_CHECKING:
    from turnstone.dialects.openai.responses.output.hosted_items import OpenHosted

JUDGED_WHOLE = ("user-input", "assistant-output")


class ResponseFold:
    """The response so far, fed with each event once and in order."""

    def __init__(self, shown: ShownResponse) -> None:
        self._shown = shown
        self._turn_id = shown.ref.turn_id
        self._items: list[OpenItem] = []
        self._ended: list[OpenItem] = []
        self._spoken: OpenItem | None = None
        self._calls: dict[int, OpenFunctionCall | OpenHosted] = {}
        self._running: dict[str, OpenHosted] = {}
        self._sources: dict[int, Annotation] = {}
        self._approved = dict(shown.sent.approvals)
        self._is_queued = False
        self.response: dict[str, Any] = shown.begun(is_queued=shown.is_in_background)

    def received(self, event: TurnEvent) -> Iterator[Event]:
        """Yield the events of the response, without their numbers, that this event of the turn causes."""
        if self._is_queued and type(event) is not TurnFailed:
            self._is_queued = False
            yield from self._in_progress()
        yield from self._caused_by(event)

    def _caused_by(self, event: TurnEvent) -> Iterator[Event]:
        match event:
            case TurnStarted():
                yield from self._created()
            case StepStarted(step_type="inference"):
                self._forget_unfinished()
            case StepDetailed(piece=piece):
                yield from self._detailed(piece)
            case StepProgressed():
                yield from self._progressed(event)
            case StepCompleted(step_details=InferenceStep() as step):
                yield from self._inferred(step)
            case StepCompleted(step_details=ToolExecutionStep() as step):
                for call, response in zip(step.tool_calls, step.tool_responses, strict=False):
                    yield from self._answered(call, response)
            case TurnCompleted(state=state):
                yield from self._completed(state)
            case TurnFailed():
                yield from self._failed(event)
            case _:
                return

    def _created(self) -> Iterator[Event]:
        yield {"type": "response.created", "response": self.response}
        self._is_queued = self._shown.is_in_background
        if self._is_queued:
            yield {"type": "response.queued", "response": self.response}
        else:
            yield from self._in_progress()

    def _in_progress(self) -> Iterator[Event]:
        if self._shown.is_in_background:  # it was queued before
            self.response = self._shown.begun()
        yield {"type": "response.in_progress", "response": self.response}
        if self._shown.sent.lists:
            from turnstone.dialects.openai.responses.output.mcp_items import OpenToolList  # few responses have such

            for listed in self._shown.sent.lists:
                yield from self._at_once(OpenToolList(self._turn_id, len(self._items), listed))

    def _at_once(self, item: OpenItem) -> Iterator[Event]:
        yield from self._begun(item)
        yield from item.ended()
        self._ended.append(item)

    def _progressed(self, event: StepProgressed) -> Iterator[Event]:
        match event.delta:
            case TextDelta(text=text) if text:
                yield from self._text(OpenMessage, text)
            case ToolCallDelta(tool_call=ToolCall() as call) if event.step_type == "tool_execution":
                yield from self._approved_call(call)

    def _detailed(self, piece: Piece) -> Iterator[Event]:
        match piece:
            case ReasoningChunk(text=text):
                if text:
                    yield from self._text(OpenReasoning, text)
            case CallBegun(index=index, call_id=call_id, name=name):
                if not (index and self._shown.sent.takes_one_call) and not self._needs_approval(name):
                    yield from self._called(index, call_id, name)
            case ArgumentsChunk(index=index, text=text):
                if index in self._calls and text:
                    yield from self._calls[index].grown(text)

    def _called(self, index: int, call_id: str, name: str) -> Iterator[Event]:
        hosted = self._shown.hosted(name)
        if hosted is None and not self._shown.is_clients(name):
            return
        yield from self._fall_silent()
        at = len(self._items)
        if hosted is None:
            self._calls[index] = OpenFunctionCall(self._turn_id, at, call_id, name)
        else:
            from turnstone.dialects.openai.responses.output import hosted_items  # few responses have such tools

            of = hosted_items.OfResponse(self._turn_id, self._shown.sent.include, self._shown.image_at)
            self._calls[index] = hosted_items.opened_hosted(of, at, hosted)
        yield from self._begun(self._calls[index])

    def _needs_approval(self, name: str) -> bool:
        hosted = self._shown.hosted(name)
        return hosted is not None and hosted.needs_approval

    def _awaits_approval(self, call: ToolCall) -> Iterator[Event]:
        """Add the request to approve the call, which its response does not run."""
        from turnstone.dialects.openai.responses.output.mcp_items import OpenApproval  # few responses have such

        hosted = self._shown.sent.hosted[call.tool_name]
        yield from self._at_once(OpenApproval(self._turn_id, len(self._items), hosted, call, _arguments_of(call)))

    def _approved_call(self, call: ToolCall) -> Iterator[Event]:
        """Begin the item of a call of an earlier response, which this one runs first."""
        approval, hosted = self._approved.pop(call.call_id, None), self._shown.hosted(call.tool_name)
        if approval is None or hosted is None:
            return
        from turnstone.dialects.openai.responses.output.hosted_items import OfResponse, OpenTool

        of = OfResponse(self._turn_id, self._shown.sent.include, self._shown.image_at)
        item = OpenTool(of, len(self._items), hosted, approval)
        self._running[call.call_id] = item
        yield from self._begun(item)
        yield from item.grown(_arguments_of(call))
        yield from item.called(call)

    def _text(self, kind: type[OpenMessage] | type[OpenReasoning], text: str) -> Iterator[Event]:
        if type(self._spoken) is not kind:
            yield from self._fall_silent()
            at, sources = len(self._items), self._sources if self._shown.has_citations else None
            is_message = kind is OpenMessage
            self._spoken = OpenMessage(self._turn_id, at, sources) if is_message else kind(self._turn_id, at)
            yield from self._begun(self._spoken)
        assert self._spoken is not None  # noqa: S101 - assigned above
        yield from self._spoken.grown(text)

    def _begun(self, item: OpenItem) -> Iterator[Event]:
        self._items.append(item)
        if removed := self._shown.sent.removed:
            item.item_id = item_id(item.kind, self._turn_id, position_of(item.index, removed))
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
        for index, call in enumerate(answer.tool_calls):
            if self._needs_approval(call.tool_name) and not isinstance(call.arguments, str):
                if not is_cut_off:
                    yield from self._awaits_approval(call)
            elif index not in self._calls:  # its provider streams no parts of calls
                yield from self._called(index, call.call_id, call.tool_name)
        for index, open_call in self._calls.items():
            called = answer.tool_calls[index] if index < len(answer.tool_calls) else None
            if called is not None and (rest := _arguments_of(called).removeprefix(open_call.text)):
                yield from open_call.grown(rest)
            yield from self._whole(open_call, None if is_cut_off else called)
        self._calls = {}

    def _whole(self, item: OpenFunctionCall | OpenHosted, call: ToolCall | None) -> Iterator[Event]:
        """Let the server's call run, or end the client's; None for one that can't be answered."""
        if not isinstance(item, OpenFunctionCall) and call is not None:
            self._running[call.call_id] = item
            yield from item.called(call)
            return
        item.is_dropped = call is None or isinstance(call.arguments, str)
        yield from item.ended("incomplete" if item.is_dropped else "completed")
        self._ended.append(item)

    def _answered(self, call: ToolCall, response: ToolResponse) -> Iterator[Event]:
        """End the item of the call."""
        item = self._running.pop(call.call_id, None)
        if item is not None:
            yield from item.answered(response)
            self._sources |= item.sources
            self._ended.append(item)

    def _left(self) -> Iterator[Event]:
        """End the items of calls that were not run."""
        for item in self._running.values():
            yield from item.left()
            self._ended.append(item)
        self._running = {}

    def _forget_unfinished(self) -> None:
        """Forget the items of an inference that was not stored; they begin again."""
        self._spoken, self._calls = None, {}
        self._items = [*self._ended, *self._running.values()]

    def _completed(self, state: TurnState) -> Iterator[Event]:
        yield from self._left()
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
        yield from self._left()
        self.response = self._shown.ended(event.state, self.output)
        yield {"type": "response.failed", "response": self.response}

    @property
    def output(self) -> list[dict[str, Any]]:
        """The finished items, in their order."""
        return [each.item for each in sorted(self._ended, key=lambda each: each.index) if not each.is_dropped]


def response_of(
    shown: ShownResponse, state: TurnState, events: Iterable[Numbered], *, is_queued: bool = False
) -> dict[str, Any]:
    """Return the response of a turn in this state, from the events of the turn so far."""
    fold = ResponseFold(shown)
    for each in events:
        for _ in fold.received(each.event):
            pass
    if state.status.is_terminal:
        return fold.response
    return {**shown.begun(is_queued=is_queued), "output": fold.output}


def _arguments_of(call: ToolCall) -> str:
    if call.arguments_json is not None:
        return call.arguments_json
    return call.arguments if isinstance(call.arguments, str) else to_json(call.arguments).decode()


def _refusal_in(state: TurnState) -> str | None:
    """Return the text of the shield that stopped the turn, None if none did."""
    if state.status is not TurnStatus.COMPLETED:
        return None
    for step, trace in zip(state.turn.steps, state.traces, strict=False):
        if isinstance(step, ShieldCallStep) and step.has_stopped and trace.touchpoint in JUDGED_WHOLE:
            return text_of(state.turn.output_message.content) or "refused"
    return None
