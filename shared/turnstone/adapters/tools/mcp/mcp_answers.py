"""Convert the result of an MCP call for the model and the client."""

from __future__ import annotations

import base64
import json
import mimetypes
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from turnstone.domain.errors import ToolFailed
from turnstone.domain.tools.tool_runs import ProducedFile, ToolResult
from turnstone.domain.values.content import Content, ContentItem, Image, ImageItem, TextItem
from turnstone.domain.values.frozen import is_too_deep

if TYPE_CHECKING:
    from mcp_types import BlobResourceContents, CallToolResult, ContentBlock

MAX_TEXT_CHARS = 8_000_000
MAX_FAILURE_CHARS = 8_192
MAX_ITEMS = 1_000
NOT_IN_A_FILE_NAME = re.compile(r"[^A-Za-z0-9._-]+")
BINARY = "application/octet-stream"


def result_of(answer: CallToolResult) -> ToolResult:
    """Return the result. Raises ToolFailed with the server's message if the tool failed."""
    items_of_answer = _Items()
    for block in answer.content[:MAX_ITEMS]:
        items_of_answer.take(block)
    if len(answer.content) > MAX_ITEMS:
        items_of_answer.add_text(f"[{len(answer.content) - MAX_ITEMS} more items are left out]")
    structured = _storable(answer.structured_content)
    if structured is not None and not items_of_answer.items:
        items_of_answer.add_text(json.dumps(structured, ensure_ascii=False))
    if answer.is_error:
        raise ToolFailed(items_of_answer.text()[:MAX_FAILURE_CHARS] or "the tool failed and did not say why")
    metadata = None if structured is None else {"structured_content": structured}
    return ToolResult(items_of_answer.content(), metadata, tuple(items_of_answer.files))


class _Items:
    """The items of a result, in order, and the files among them."""

    def __init__(self) -> None:
        self.items: list[ContentItem] = []
        self.files: list[ProducedFile] = []
        self._chars = 0

    def take(self, block: ContentBlock) -> None:
        match block.type:
            case "text":
                self.add_text(block.text)
            case "image":
                self._show(block.data, block.mime_type)
            case "audio":
                self._keep(block.data, block.mime_type, "audio")
            case "resource_link":
                described = f": {block.description}" if block.description else ""
                self.add_text(f"[{block.name} is at {block.uri}{described}]")
            case "resource":
                if hasattr(block.resource, "text"):
                    self.add_text(block.resource.text)
                else:
                    self._keep_blob(block.resource)

    def add_text(self, text: str) -> None:
        room = MAX_TEXT_CHARS - self._chars
        if len(text) > room:
            if room <= 0:
                return
            text = f"{text[:room]}\n[the rest of {len(text)} characters is left out]"
        self._chars += len(text)
        self.items.append(TextItem(text=text))

    def text(self) -> str:
        return "\n".join(item.text for item in self.items if isinstance(item, TextItem))

    def content(self) -> Content:
        """Return the items as a list, even a single one: clients read an MCP result item by item."""
        return tuple(self.items)

    def _show(self, encoded: str, mime_type: str) -> None:
        if _decoded(encoded) is None:
            self.add_text(f"[an image, {_type(mime_type)}, is left out: it is not base64]")
        else:
            self.items.append(ImageItem(image=Image(data=encoded)))

    def _keep_blob(self, resource: BlobResourceContents) -> None:
        self._keep(resource.blob, resource.mime_type or BINARY, "resource", str(resource.uri))

    def _keep(self, encoded: str, mime_type: str, kind: str, uri: str = "") -> None:
        body, mime_type = _decoded(encoded), _type(mime_type)
        if body is None:
            self.add_text(f"[{kind}, {mime_type}, is left out: it is not base64]")
            return
        number = len(self.files) + 1
        named = NOT_IN_A_FILE_NAME.sub("_", urlsplit(uri).path.rpartition("/")[2]).strip("._")[-100:]
        name = f"{number}-{named}" if named else f"{kind}-{number}{_ending(mime_type)}"
        self.files.append(ProducedFile(name, mime_type, body))
        self.add_text(f"[{kind}: {name}, {mime_type}, {len(body)} bytes]")


def _decoded(encoded: str) -> bytes | None:
    try:
        return base64.b64decode(encoded, validate=True)
    except ValueError:
        return None


def _type(mime_type: str) -> str:
    return mime_type if re.fullmatch(r"[A-Za-z0-9.+-]{1,64}/[A-Za-z0-9.+-]{1,64}", mime_type) else BINARY


def _ending(mime_type: str) -> str:
    """Return the file extension; Python's table lacks types that follow the naming pattern."""
    subtype = mime_type.partition("/")[2]
    return mimetypes.guess_extension(mime_type) or (f".{subtype}" if re.fullmatch("[a-z0-9]{2,5}", subtype) else ".bin")


def _storable(value: Any) -> Any:
    """Return the value if a store can hold it, else None."""
    if is_too_deep(value):
        return None
    try:
        return value if len(json.dumps(value, allow_nan=False)) <= MAX_TEXT_CHARS else None
    except ValueError:
        return None
