"""Reads a JSON object piece by piece: texts of chosen members as they grow, and the compact JSON of all others.

A fragment never cuts a key, an escape or a surrogate pair, and all fragments together are the same for any cuts of the
object. The first character that no JSON object can have ends the reading.
"""

import re
from collections.abc import Collection
from math import inf
from typing import NamedTuple

from pydantic_core import from_json, to_json

PLAIN = re.compile(r'[^"\\\x00-\x1f]+')
ESCAPE = re.compile(
    r'\\(?:["\\/bfnrt]'
    r"|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # both halves of a pair
    r"|u(?![dD][89a-fA-F])[0-9a-fA-F]{4})"
)
LONGEST_ESCAPE = 12
SCALAR = re.compile(r"[^\s,:\[\]{}\"]+")
SPACE = re.compile(r"[ \t\n\r]*")
CLOSES = {"{": "}", "[": "]"}


class Fragment(NamedTuple):
    """A fragment of the text of the member with that name; without one, of the JSON of the members not chosen."""

    member: str | None
    text: str


class PartialObject:
    """One object, fed piece by piece."""

    def __init__(self, chosen: Collection[str]) -> None:
        """Take the names of the members whose texts are read; their values are not in the JSON of the others."""
        self._chosen = chosen
        self._rest = ""
        self._is_broken = False
        self._closers: list[str] = []
        self._expects = "object"
        self._member: str | None = None
        self._has_members = False
        self._key: list[str] = []
        self._scalar: list[str] = []
        self._found: list[tuple[str | None, list[str]]] = []

    def feed(self, piece: str) -> tuple[Fragment, ...]:
        """Return the fragments that the next piece of the object completes."""
        text, at = self._rest + piece, 0
        self._rest = ""
        while at < len(text) and not self._is_broken:
            if self._expects in ("key text", "text"):
                at = self._in_text(text, at)
            elif self._expects == "scalar":
                at = self._in_scalar(text, at)
            elif (start := _match_end(SPACE, text, at)) < len(text):
                at = self._mark(text[start], start)
            else:
                break
        found, self._found = self._found, []
        return tuple(Fragment(member, "".join(texts)) for member, texts in found)

    def _mark(self, mark: str, at: int) -> int:
        """Read one character of the structure; return where to continue."""
        expects = self._expects
        if mark == '"' and expects in ("key", "key or end", "value", "value or end"):
            self._expects = "key text" if expects.startswith("key") else "text"
            if self._expects == "text":
                self._json('"')
        elif expects == "object" and mark == "{":
            self._closers.append("}")
            self._expects = "key or end"
        elif expects in ("value", "value or end") and mark in CLOSES:
            self._closers.append(CLOSES[mark])
            self._json(mark)
            self._expects = "key or end" if mark == "{" else "value or end"
        elif expects.endswith("end") and mark == self._closers[-1]:
            self._close(mark)
        elif expects == "colon" and mark == ":":
            self._expects = "value"
        elif expects == "comma or end" and mark == ",":
            self._expects = "key" if self._closers[-1] == "}" else "value"
            if len(self._closers) > 1:
                self._json(",")
        elif expects in ("value", "value or end") and SCALAR.match(mark):
            self._expects = "scalar"
            return at
        else:
            self._is_broken = True
        return at + 1

    def _in_text(self, text: str, at: int) -> int:
        """Read on in a key or in a text."""
        if text[at] == '"':
            if self._expects == "key text":
                self._end_of_key()
            else:
                self._json('"')
                self._expects = "comma or end"
            return at + 1
        if (end := _match_end(PLAIN, text, at)) > at:
            self._grown(text[at:end])
            return end
        if (end := _match_end(ESCAPE, text, at)) > at:
            self._grown(from_json(f'"{text[at:end]}"'))
            return end
        if text[at] == "\\" and len(text) - at < LONGEST_ESCAPE:
            self._rest = text[at:]  # more of it is to come
            return len(text)
        self._is_broken = True
        return at

    def _in_scalar(self, text: str, at: int) -> int:
        """Read on in a number or a word, which ends before the next character of the structure."""
        if (end := _match_end(SCALAR, text, at)) > at:
            self._scalar.append(text[at:end])
        if end < len(text):
            self._end_of_scalar()
            self._expects = "comma or end"
        return end

    def _end_of_scalar(self) -> None:
        try:
            value = from_json("".join(self._scalar), allow_inf_nan=False)
        except ValueError:
            value = inf
        self._scalar = []
        self._is_broken = value in (inf, -inf)
        if not self._is_broken:
            self._json(to_json(value).decode())

    def _grown(self, text: str) -> None:
        """Add characters of a key or of a text."""
        if self._expects == "key text":
            self._key.append(text)
        elif self._is_chosen and len(self._closers) == 1:
            self._add(self._member, text)
        else:
            self._json(to_json(text).decode()[1:-1])

    def _end_of_key(self) -> None:
        name = "".join(self._key)
        self._key = []
        self._expects = "colon"
        if len(self._closers) > 1:
            self._json(to_json(name).decode() + ":")
            return
        self._member = name
        if not self._is_chosen:
            self._json(("," if self._has_members else "{") + to_json(name).decode() + ":")
            self._has_members = True

    def _close(self, mark: str) -> None:
        self._closers.pop()
        if self._closers:
            self._json(mark)
            self._expects = "comma or end"
            return
        self._member = None
        self._json("}" if self._has_members else "{}")
        self._expects = "nothing"

    @property
    def _is_chosen(self) -> bool:
        return self._member is not None and self._member in self._chosen

    def _json(self, text: str) -> None:
        """Add JSON, unless it belongs to a chosen member."""
        if not self._is_chosen:
            self._add(None, text)

    def _add(self, member: str | None, text: str) -> None:
        if self._found and self._found[-1][0] == member:
            self._found[-1][1].append(text)
        else:
            self._found.append((member, [text]))


def _match_end(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return the end of the pattern's match at this position, the position itself without one."""
    match = pattern.match(text, at)
    return at if match is None else match.end()
