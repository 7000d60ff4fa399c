"""The items of a conversation: of each turn the input items, then the output items, whatever API began the turn.

An item's id is that of its position in its turn, also where its client sent another one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from turnstone.dialects.openai.responses.folding import ResponseFold
from turnstone.dialects.openai.responses.input.items import ITEM, PREFIXES, given_input
from turnstone.dialects.openai.responses.output.text_items import Event, OpenItem
from turnstone.dialects.openai.responses.shown import ShownResponse
from turnstone.dialects.openai.responses.stream import EventsOf
from turnstone.domain.errors import InvalidRequest, NotFound
from turnstone.domain.messages.messages import CompletionMessage, Message, ToolResponseMessage
from turnstone.domain.responses.addresses import FIRST_INPUT, ITEM_KIND, item_address, item_id
from turnstone.domain.responses.conversations import ConversationTurn
from turnstone.domain.responses.removal import (
    Removal,
    Removed,
    RemovedAnswer,
    RemovedCall,
    RemovedInput,
    RemovedOutput,
    RemovedReasoning,
    RemovedText,
    is_deleted,
)
from turnstone.domain.responses.requests import SentRequest
from turnstone.domain.turns.events import StepCompleted, TurnEvent
from turnstone.domain.turns.turns import ToolExecutionStep, TurnState
from turnstone.domain.values.content import Content, ImageItem, TextItem, items_of, text_of
from turnstone.domain.values.frozen import JsonObject

Item = Mapping[str, Any]
WHOLE = 10**9  # characters, more than any text has
BASE64 = "data:image/png;base64,"  # the Agents API takes bytes without their type, which readers of images find


class OpenAnswer(OpenItem):
    """A client's answer to a call, given in the middle of a turn."""

    kind = "fco"

    def __init__(self, turn_id: str, index: int, call_id: str, output: Content) -> None:
        super().__init__(turn_id, index)
        self._call_id = call_id
        self._output = output

    @property
    def item(self) -> dict[str, Any]:
        output = self._output if isinstance(self._output, str) else _parts(self._output)
        answer = {"type": "function_call_output", "call_id": self._call_id, "output": output}
        return {"id": self.item_id, **answer, "status": self.status}


class TurnItems(ResponseFold):
    """The output items of a turn, each with the step that it is of."""

    def __init__(self, shown: ShownResponse) -> None:
        super().__init__(shown)
        self._step = 0
        self.steps: dict[str, int] = {}

    @property
    def has_citations(self) -> bool:
        return self._shown.has_citations

    def received(self, event: TurnEvent) -> Iterator[Event]:
        yield from super().received(event)
        if isinstance(event, StepCompleted):
            if isinstance(step := event.step_details, ToolExecutionStep):
                yield from self._client_answers(step)
            for item in self._ended:
                self.steps.setdefault(item.item_id, self._step)
            self._step += 1

    def _client_answers(self, step: ToolExecutionStep) -> Iterator[Event]:
        for response in step.tool_responses:
            if self._shown.is_clients(response.tool_name) and not is_deleted(response):
                item = OpenAnswer(self._turn_id, len(self._items), response.call_id, response.content)
                yield from self._begun(item)
                yield from item.ended()
                self._ended.append(item)


def items_of_turn(turn: ConversationTurn, events_of: EventsOf, include: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Return the turn's items, in the order of the conversation, with those details and those of its request."""
    turn_id = turn.ref.turn_id
    shown = ({**item, "id": _input_id(item, turn_id, index)} for index, item in enumerate(_input(turn)) if item)
    return [*shown, *_folded(turn, events_of, include).output]


def item_of(turn: ConversationTurn, named: str, events_of: EventsOf, include: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the item of that id, likewise. Raises NotFound."""
    for item in items_of_turn(turn, events_of, include):
        if item["id"] == named:
            return item
    raise NotFound(ITEM_KIND, named)


def removal_of(turn: ConversationTurn, named: str, events_of: EventsOf) -> Removal:
    """Return the removal of the item of that id. Raises NotFound, and InvalidRequest for an item of another type."""
    item, address = item_of(turn, named, events_of), item_address(named)
    assert address is not None  # noqa: S101 - an item has this id
    items = _input(turn)
    if address.is_input:
        index = address.position - FIRST_INPUT
        left = (*items[:index], {}, *items[index + 1 :])
        return Removal(RemovedInput(messages_of(left)), left)
    return Removal(_removed(_folded(turn, events_of), item), items, address.position)


def messages_of(items: Sequence[JsonObject]) -> tuple[Message, ...]:
    """Return the stored items as messages, without deleted ones."""
    return given_input(ITEM.validate_python(item) for item in items if item).messages


def _input(turn: ConversationTurn) -> tuple[JsonObject, ...]:
    """Return the input items as stored: as they were sent, or made of the messages of another API."""
    if turn.sent is not None:
        return turn.sent.input
    return tuple(item for message in turn.state.turn.input_messages for item in _items_of(message))


def _input_id(item: Item, turn_id: str, index: int) -> str:
    return item_id(PREFIXES[str(item["type"])], turn_id, FIRST_INPUT + index)


def _folded(turn: ConversationTurn, events_of: EventsOf, include: tuple[str, ...] = ()) -> TurnItems:
    sent = turn.sent or SentRequest()
    functions = (*sent.functions, *_clients_tools(turn.state))
    changes = {"functions": functions, "include": (*sent.include, *include)}
    folded = TurnItems(ShownResponse(turn.ref, sent.model_copy(update=changes)))
    for each in events_of(turn.state):
        for _ in folded.received(each.event):
            pass
    return folded


def _clients_tools(state: TurnState) -> set[str]:
    """Return the names of the tools that the client of another API ran."""
    answered = (
        call.tool_name
        for step, trace in zip(state.turn.steps, state.traces, strict=True)
        if isinstance(step, ToolExecutionStep) and trace.is_from_client
        for call in step.tool_calls
    )
    left = (*state.pending_calls, *state.turn.output_message.tool_calls)
    return {*answered, *(call.tool_name for call in left)}


def _removed(folded: TurnItems, item: dict[str, Any]) -> Removed:
    step = folded.steps.get(str(item["id"]))
    kind = item["type"]
    if step is None and kind == "message":
        return RemovedOutput()
    if step is not None:
        match kind:
            case "message":
                return RemovedText(step, *_span(folded, item, step))
            case "reasoning":
                return RemovedReasoning(step, *_span(folded, item, step))
            case "function_call":
                return RemovedCall(step, str(item["call_id"]))
            case "function_call_output":
                return RemovedAnswer(step, str(item["call_id"]))
    raise _inseparable(item)


def _span(folded: TurnItems, item: dict[str, Any], step: int) -> tuple[int, int]:
    """Return where the item's text begins in that of its step, and its length."""
    alike = [each for each in folded.output if (each["type"], folded.steps.get(each["id"])) == (item["type"], step)]
    if len(alike) == 1:
        return 0, WHOLE
    if folded.has_citations:  # whose marks are not shown, so that the lengths are not those of the stored text
        raise _inseparable(item)
    before = alike[: alike.index(item)]
    return sum(len(_text(each)) for each in before), len(_text(item))


def _inseparable(item: Item) -> InvalidRequest:
    message = f"an item of the type {item['type']!r} can't be deleted alone; delete its conversation"
    return InvalidRequest(f"item_id: {message}")


def _text(item: Item) -> str:
    return "".join(str(part.get("text") or "") for part in item["content"])


def _items_of(message: Message) -> Iterator[JsonObject]:
    """Yield the items that a message of another API is."""
    if isinstance(message, ToolResponseMessage):
        output = message.content if isinstance(message.content, str) else _parts(message.content)
        yield {"type": "function_call_output", "call_id": message.call_id, "output": output, "status": "completed"}
        return
    if isinstance(message, CompletionMessage):
        if text := text_of(message.content):
            yield _message("assistant", [{"type": "output_text", "text": text, "annotations": []}])
        for call in message.tool_calls:
            made = {"call_id": call.call_id, "name": call.tool_name, "arguments": call.arguments_json or "{}"}
            yield {"type": "function_call", **made, "status": "completed"}
        return
    yield _message(message.role, _parts(message.content))


def _message(role: str, content: list[dict[str, Any]]) -> JsonObject:
    return {"type": "message", "role": role, "content": content, "status": "completed"}


def _parts(content: Content) -> list[dict[str, Any]]:
    return [_part(item) for item in items_of(content)]


def _part(item: TextItem | ImageItem) -> dict[str, Any]:
    if isinstance(item, TextItem):
        return {"type": "input_text", "text": item.text}
    data = item.image.data or ""
    url = item.image.url.uri if item.image.url else data if data.startswith("data:") else f"{BASE64}{data}"
    return {"type": "input_image", "image_url": url, "detail": "auto"}
