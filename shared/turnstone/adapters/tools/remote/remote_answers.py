"""Convert a remote tool's response: text for the model, a file for any other type."""

from __future__ import annotations

import mimetypes
import re
from typing import TYPE_CHECKING

from turnstone.domain.tools.tool_runs import ProducedFile, ToolResult

if TYPE_CHECKING:
    from turnstone.adapters.fetching.messages import Fetched

MAX_TEXT_CHARACTERS = 8_000_000
TEXTS = re.compile(
    r"text/.+|application/(?:json|.+\+json|xml|.+\+xml|yaml|x-yaml|javascript|graphql|x-ndjson|x-www-form-urlencoded)"
)
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
MAX_NAME_CHARACTERS = 64
ANY_BYTES = "application/octet-stream"


def result_of(fetched: Fetched, tool_name: str) -> ToolResult:
    """Return the result; a body other than text becomes a file."""
    if not fetched.body:
        return ToolResult(f"HTTP {fetched.status}, without content", _metadata(fetched))
    text = text_in(fetched)
    if text is not None:
        return ToolResult(_cut(text), _metadata(fetched))
    mime_type = fetched.media_type or ANY_BYTES
    stem = NOT_IN_NAMES.sub("_", tool_name)[:MAX_NAME_CHARACTERS] or "file"
    file = ProducedFile(stem + (mimetypes.guess_extension(mime_type) or ".bin"), mime_type, fetched.body)
    notice = f"The answer is the file {file.name} ({mime_type}, {len(file.body)} bytes). The user is given it."
    return ToolResult(notice, _metadata(fetched), (file,))


def text_in(fetched: Fetched) -> str | None:
    """Return the body as a text, None if it is not one. A body without a type is a text if it decodes as one."""
    if TEXTS.fullmatch(fetched.media_type):
        return fetched.text
    if fetched.media_type not in ("", ANY_BYTES) or b"\0" in fetched.body:
        return None
    try:
        return fetched.body.decode()
    except UnicodeDecodeError:
        return None


def _cut(text: str) -> str:
    if len(text) <= MAX_TEXT_CHARACTERS:
        return text
    return f"{text[:MAX_TEXT_CHARACTERS]}\n[cut: the answer has {len(text)} characters]"


def _metadata(fetched: Fetched) -> dict[str, int]:
    return {"status": fetched.status}
