"""Write bodies into a transcript: every byte counts, and diffs stay readable."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

WIDTH = 140
NOT_TEXT_FROM = 4_000
LONG_TEXT = 1_200
SHOWN = 200
HASH = 40  # characters: no token has this length


def body_lines(body: bytes) -> Iterator[str]:
    """Yield the lines of a body.

    Compact JSON is wrapped. JSON as Python's `json` writes it is marked with `~`, any other text with `|`.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError:
        yield f"= {len(body)} bytes, {body.hex()[:NOT_TEXT_FROM]}"
        return
    if text.startswith("data: ") or "\ndata: " in text:
        yield from event_lines(text)
    else:
        yield from text_lines(text)


def event_lines(text: str) -> Iterator[str]:
    """Yield the lines of server-sent events, their JSON wrapped."""
    for line in text.split("\n"):
        name, colon, value = line.partition(": ")
        if name == "data" and colon and value.startswith("{"):
            first, *rest = text_lines(value)
            yield f"data: {first}"
            yield from rest
        else:
            yield line


def text_lines(text: str) -> Iterator[str]:
    """Yield the lines of a text, wrapped if it is JSON."""
    if not text:
        return
    try:
        value = json.loads(text)
    except ValueError:
        yield from (f"| {line}" for line in text.split("\n"))
        return
    if compact(value) == text:
        yield from json_lines(shortened(value))
    elif json.dumps(value) == text:  # as Python's own `json` writes it
        first, *rest = json_lines(shortened(value))
        yield f"~ {first}"
        yield from rest
    else:
        yield from (f"| {line}" for line in text.split("\n"))


def shortened(value: Any) -> Any:
    """Return the value with each long text replaced by its beginning, its length and its hash."""
    if isinstance(value, str) and len(value) > LONG_TEXT:
        return f"{value[:SHOWN]} … {len(value)} characters, sha256 {sha256(value.encode()).hexdigest()[:HASH]}"
    if isinstance(value, dict):
        return {name: shortened(item) for name, item in value.items()}
    return [shortened(item) for item in value] if isinstance(value, list) else value


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def json_lines(value: Any, depth: int = 0, before: str = "", after: str = "") -> Iterator[str]:
    """Yield compact JSON in lines of bounded width; lists and objects that are too long are opened."""
    whole = f"{' ' * depth}{before}{compact(value)}{after}"
    if len(whole) <= WIDTH or not isinstance(value, dict | list) or not value:
        yield whole
        return
    pairs = list(value.items()) if isinstance(value, dict) else [(None, item) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    if len(pairs) == 1:
        ((name, item),) = pairs
        inner = opening if name is None else f"{opening}{compact(name)}:"
        yield from json_lines(item, depth, before + inner, closing + after)
        return
    yield f"{' ' * depth}{before}{opening}"
    for index, (name, item) in enumerate(pairs):
        comma = "," if index < len(pairs) - 1 else ""
        yield from json_lines(item, depth + 1, f"{compact(name)}:" if name is not None else "", comma)
    yield f"{' ' * depth}{closing}{after}"
