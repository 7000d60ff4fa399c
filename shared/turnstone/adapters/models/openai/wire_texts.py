"""Texts in the chunks of an answer, whose parts may end within a surrogate pair. Pure."""

from collections.abc import Mapping
from typing import Any


class WholeCharacters:
    """Joins surrogate pairs that are split over parts; half of one waits for the next part."""

    def __init__(self) -> None:
        self._high_surrogate = ""

    def feed(self, part: str) -> str:
        """Return the text up to its last whole character, with U+FFFD for each lone surrogate."""
        if part.isascii() and not self._high_surrogate:
            return part
        text = self._high_surrogate + part
        self._high_surrogate = text[-1] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return mended(text.removesuffix(self._high_surrogate))


def mended(text: str) -> str:
    """Return the text with its surrogate pairs joined; a lone surrogate becomes U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def text_from_wire(content: object) -> str:
    """Return the text of a delta's content: a string or a list of parts."""
    if isinstance(content, list):
        return "".join(text_from_wire(mapping_of(part).get("text")) for part in content)
    return content if isinstance(content, str) else ""


def reasoning_from_wire(delta: Mapping[str, Any], content: object) -> str:
    """Return the reasoning of a delta, from the first of its fields that has any."""
    found = text_from_wire(delta.get("reasoning_content")) or text_from_wire(delta.get("reasoning"))
    if found or not isinstance(content, list):
        return found
    return "".join(text_from_wire(mapping_of(part).get("thinking")) for part in content)


def mapping_of(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
