"""Convert a history for Bedrock's Converse: a user begins, roles alternate, no text is blank. Pure, no I/O."""

import base64
import json
from collections.abc import Iterator, Sequence
from typing import Any

from turnstone.adapters.models.bedrock.bedrock_names import Aliases
from turnstone.adapters.models.openai.openai_wire import (
    IMAGE_PLACEHOLDER,
    arguments_to_wire,
    text_with_placeholders,
)
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.messages.messages import (
    CompletionMessage,
    Message,
    SystemMessage,
    ToolResponseMessage,
    UserMessage,
)
from turnstone.domain.tools.tools import ToolCall
from turnstone.domain.values.content import Content, Image, TextItem, items_of
from turnstone.domain.values.image_files import find_image_kind

EMPTY = "(empty)"
LEFT_OUT = "(what was said before is left out)"
ContentBlock = dict[str, Any]


class Conversation:
    """Converts messages to Converse's form, under valid names."""

    def __init__(self, tool_names: Aliases) -> None:
        self._tool_names = tool_names
        self._call_ids = Aliases()
        self._uses: dict[str, int] = {}
        self._messages: list[dict[str, Any]] = []

    def converted(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Return all messages except the system's.

        Tool results come first in the user's message after the calls, whatever the user wrote between them.

        Raises:
            InvalidRequest: an image of the last message cannot be sent. A placeholder replaces one in an
                earlier message, to keep the session usable.
        """
        for index, message in enumerate(messages):
            match message:
                case SystemMessage():
                    pass
                case CompletionMessage():
                    self._add("assistant", list(self._assistant_content(message)))
                case ToolResponseMessage():
                    self._add("user", [self._answer(message)])
                case UserMessage():
                    blocks = list(_user_content(message, must_show=index == len(messages) - 1))
                    self._add("user", blocks or [{"text": EMPTY}])
        for sent in self._messages:
            sent["content"].sort(key=lambda block: "toolResult" not in block)
        return self._messages

    def _add(self, role: str, blocks: list[ContentBlock]) -> None:
        if not blocks:
            return
        if not self._messages and role == "assistant":
            self._messages.append({"role": "user", "content": [{"text": LEFT_OUT}]})
        if self._messages and self._messages[-1]["role"] == role:
            self._messages[-1]["content"] += blocks
        else:
            self._messages.append({"role": role, "content": blocks})

    def _assistant_content(self, message: CompletionMessage) -> Iterator[ContentBlock]:
        text = text_with_placeholders(message.content)
        if text.strip():
            yield {"text": text}
        for call in message.tool_calls:
            yield {"toolUse": self._call(call)}

    def _call(self, call: ToolCall) -> ContentBlock:
        self._uses[call.call_id] = self._uses.get(call.call_id, 0) + 1
        return {
            "toolUseId": self._call_id(call.call_id),
            "name": self._tool_names.alias_of(call.tool_name),
            "input": json.loads(arguments_to_wire(call)),
        }

    def _answer(self, message: ToolResponseMessage) -> ContentBlock:
        content = list(_blocks(message.content, must_show=False)) or [{"text": EMPTY}]
        return {"toolResult": {"toolUseId": self._call_id(message.call_id), "content": content}}

    def _call_id(self, call_id: str) -> str:
        """Return the alias of the latest call with that id: for Converse a repeated id is another call."""
        uses = self._uses.get(call_id, 0)
        return self._call_ids.alias_of(call_id if uses < 2 else f"{call_id}#{uses}")


def _user_content(message: UserMessage, *, must_show: bool) -> Iterator[ContentBlock]:
    yield from _blocks(message.content, must_show=must_show)
    if message.context is not None:
        yield from _blocks(message.context, must_show=must_show)


def _blocks(content: Content, *, must_show: bool) -> Iterator[ContentBlock]:
    for item in items_of(content):
        if isinstance(item, TextItem):
            if item.text.strip():
                yield {"text": item.text}
            continue
        try:
            yield _image(item.image)
        except InvalidRequest:
            if must_show:
                raise
            yield {"text": IMAGE_PLACEHOLDER}


def _image(image: Image) -> ContentBlock:
    """Return the image. Raises InvalidRequest for an image without data, or of an unsupported format."""
    source = image.data or (image.url.uri if image.url is not None else "")
    if image.data is None and not source.startswith("data:"):
        raise InvalidRequest("Bedrock takes images as data, not by URL; send the image's data", ("messages",))
    encoded = source.partition(",")[2] if source.startswith("data:") else source
    try:
        data = base64.b64decode(encoded)
    except ValueError as exc:
        raise InvalidRequest("the data of an image must be base64", ("messages",)) from exc
    kind = find_image_kind(data)
    if kind is None:
        raise InvalidRequest("Bedrock takes images as PNG, JPEG, GIF or WebP only", ("messages",))
    return {"image": {"format": kind.mime_type.removeprefix("image/"), "source": {"bytes": data}}}
