"""URL templates with placeholders for a call's arguments, which cannot change any other part of the URL."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

from turnstone.domain.errors import ToolFailed

PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
PARTS = re.compile(r"(?P<origin>https?://[^/?#\\]*)(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#.*)?", re.I | re.S)
SPLIT_ESCAPE = re.compile(r"%[0-9A-Fa-f]?\{")
DOTS = (".", "..")


@dataclass(frozen=True, slots=True)
class FilledUrl:
    """A complete URL.

    Attributes:
        used: the names of the arguments in it.
        query_names: the names in the template's own query, whatever the values.
    """

    url: str
    used: frozenset[str]
    query_names: frozenset[str]


def filled(template: str, arguments: Mapping[str, Any]) -> FilledUrl:
    """Return the URL with percent-encoded arguments in place of the placeholders.

    Raises:
        ToolFailed: a placeholder is not permitted there, or its argument is missing, or would lead to another path.
    """
    parts = PARTS.fullmatch(template.strip())
    if parts is None:
        raise ToolFailed("the url of this tool's definition begins with neither http:// nor https://")
    if PLACEHOLDER.search(parts["origin"]):
        raise ToolFailed("the url of this tool's definition has an argument in its host or port, where none may be")
    if SPLIT_ESCAPE.search(template):
        raise ToolFailed("the url of this tool's definition has an argument within a percent-encoded character")
    path = "/".join(_segment(segment, arguments) for segment in parts["path"].split("/"))
    query = PLACEHOLDER.sub(lambda found: quote(_text_for(found[1], arguments), safe=""), parts["query"] or "")
    names = frozenset(name for name, _ in parse_qsl(parts["query"] or "", keep_blank_values=True))
    url = parts["origin"] + path + (f"?{query}" if query else "")
    return FilledUrl(url, frozenset(PLACEHOLDER.findall(parts["path"] + (parts["query"] or ""))), names)


def with_query(url: str, further: Mapping[str, Any]) -> str:
    """Return the URL with a longer query: a list as a repeated name, an object as JSON.

    Raises:
        ToolFailed: a text cannot be encoded.
    """
    pairs = [(name, text) for name, value in further.items() for text in _texts(value)]
    if not pairs:
        return url
    try:
        return f"{url}{'&' if '?' in url else '?'}{urlencode(pairs)}"
    except UnicodeEncodeError:
        raise ToolFailed("the arguments of this call have characters that can't be sent") from None


def _segment(segment: str, arguments: Mapping[str, Any]) -> str:
    """Return a path segment with its arguments. Raises ToolFailed if it would become another path.

    Servers may decode a path before routing it, so an encoded argument must not lead elsewhere either.
    """
    if not PLACEHOLDER.search(segment):
        return segment
    made = PLACEHOLDER.sub(lambda found: quote(_text_for(found[1], arguments), safe=""), segment)
    parts = re.split(r"[/\\]", unquote(made))
    if not made or any(part.partition(";")[0].strip() in DOTS for part in parts):
        names = ", ".join(map(repr, PLACEHOLDER.findall(segment)))
        raise ToolFailed(f"the argument {names} can't stand in the url: it is empty, or leads to another path")
    return made


def _text_for(name: str, arguments: Mapping[str, Any]) -> str:
    value = arguments.get(name)
    if value is None or isinstance(value, dict | list):
        raise ToolFailed(f"this tool needs the argument {name!r}, a text or a number, for its url")
    text = _text(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ToolFailed(f"the argument {name!r} has characters that can't be sent") from None
    return text


def _texts(value: Any) -> Iterator[str]:
    for each in value if isinstance(value, list | tuple) else (value,):
        if each is not None:
            yield _text(each)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
