"""Function calls of an output, which the client runs, while they grow."""

from collections.abc import Iterator
from typing import Any

from turnstone.dialects.openai.responses.output.text_items import Event, OpenItem, Status


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
