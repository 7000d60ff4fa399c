"""The output items of an inference while they grow: reasoning, messages and function calls.

Each writes the events of its growth, and ends as the item of the whole response. The items of a response are made by
these alone, so that a stream ends with what a later request reads.
"""

from collections.abc import Iterator
from typing import Any, Literal

from turnstone.domain.responses.addresses import item_id

Event = dict[str, Any]
Status = Literal["in_progress", "completed", "incomplete"]


class OpenItem:
    """An item that has begun.

    Attributes:
        index: its position in the output.
        is_dropped: whether the response leaves it out in the end: a call that can't be answered.
    """

    kind = ""

    def __init__(self, turn_id: str, index: int) -> None:
        self.index = index
        self.item_id = item_id(self.kind, turn_id, index)
        self.text = ""
        self.status: Status = "in_progress"
        self.is_dropped = False

    @property
    def item(self) -> dict[str, Any]:
        """The item as it is now."""
        raise NotImplementedError

    def begun(self) -> Iterator[Event]:
        yield self._event("response.output_item.added", item=self.item)

    def grown(self, text: str) -> Iterator[Event]:
        raise NotImplementedError

    def ended(self, status: Status = "completed") -> Iterator[Event]:
        self.status = status
        yield self._event("response.output_item.done", item=self.item)

    def _event(self, kind: str, **fields: Any) -> Event:
        return {"type": kind, "output_index": self.index, **fields}

    def _part_event(self, kind: str, **fields: Any) -> Event:
        return self._event(kind, item_id=self.item_id, content_index=0, **fields)


class OpenReasoning(OpenItem):
    kind = "rs"

    @property
    def item(self) -> dict[str, Any]:
        content = [{"type": "reasoning_text", "text": self.text}] if self.text else []
        return {
            "id": self.item_id,
            "type": "reasoning",
            "summary": [],
            "content": content,
            "encrypted_content": None,
            "status": self.status,
        }

    def grown(self, text: str) -> Iterator[Event]:
        if not self.text:
            yield self._part_event("response.content_part.added", part={"type": "reasoning_text", "text": ""})
        self.text += text
        yield self._part_event("response.reasoning_text.delta", delta=text)

    def ended(self, status: Status = "completed") -> Iterator[Event]:
        if self.text:
            yield self._part_event("response.reasoning_text.done", text=self.text)
            part = {"type": "reasoning_text", "text": self.text}
            yield self._part_event("response.content_part.done", part=part)
        yield from super().ended(status)


class OpenMessage(OpenItem):
    kind = "msg"

    @property
    def item(self) -> dict[str, Any]:
        content = [self._part] if self.text else []
        return {
            "id": self.item_id,
            "type": "message",
            "role": "assistant",
            "status": self.status,
            "content": content,
        }

    @property
    def _part(self) -> dict[str, Any]:
        return _output_text(self.text)

    def grown(self, text: str) -> Iterator[Event]:
        if not self.text:
            yield self._part_event("response.content_part.added", part=_output_text(""))
        self.text += text
        yield self._part_event("response.output_text.delta", delta=text, logprobs=[])

    def ended(self, status: Status = "completed") -> Iterator[Event]:
        if self.text:
            yield self._part_event("response.output_text.done", text=self.text, logprobs=[])
            yield self._part_event("response.content_part.done", part=self._part)
        yield from super().ended(status)


class OpenRefusal(OpenMessage):
    """The message of a shield that stopped the response."""

    @property
    def _part(self) -> dict[str, Any]:
        return {"type": "refusal", "refusal": self.text}

    def grown(self, text: str) -> Iterator[Event]:
        if not self.text:
            yield self._part_event("response.content_part.added", part={"type": "refusal", "refusal": ""})
        self.text += text
        yield self._part_event("response.refusal.delta", delta=text)

    def ended(self, status: Status = "completed") -> Iterator[Event]:
        if self.text:
            yield self._part_event("response.refusal.done", refusal=self.text)
            yield self._part_event("response.content_part.done", part=self._part)
        yield from OpenItem.ended(self, status)


class OpenFunctionCall(OpenItem):
    kind = "fc"

    def __init__(self, turn_id: str, index: int, call_id: str, name: str) -> None:
        super().__init__(turn_id, index)
        self._call_id = call_id
        self._name = name

    @property
    def item(self) -> dict[str, Any]:
        return {
            "id": self.item_id,
            "type": "function_call",
            "call_id": self._call_id,
            "name": self._name,
            "arguments": self.text,
            "status": self.status,
        }

    def grown(self, text: str) -> Iterator[Event]:
        self.text += text
        yield self._event("response.function_call_arguments.delta", item_id=self.item_id, delta=text)

    def ended(self, status: Status = "completed") -> Iterator[Event]:
        done = {"item_id": self.item_id, "arguments": self.text, "name": self._name}
        yield self._event("response.function_call_arguments.done", **done)
        yield from super().ended(status)


def _output_text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
