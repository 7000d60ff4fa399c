"""Calls read from a model's text, and the rules for names of tools. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from turnstone.adapters.models.prompted.cursor import Cursor, Unreadable


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call written by a model.

    Attributes:
        arguments: a text if unreadable; None if that text is the whole rest of the answer.
        positional: the arguments without a name.
    """

    name: str
    arguments: Mapping[str, Any] | str | None
    positional: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Names:
    """The names that can be called at a position.

    Attributes:
        offered: the names of the offered tools, the longest first.
        takes_unknown: whether a call of another tool counts, too.
        takes_bare: whether a call may stand without brackets or tags.
    """

    offered: tuple[str, ...]
    takes_unknown: bool = False
    takes_bare: bool = False

    def check(self, name: str) -> None:
        """Raise Unreadable unless the name can be called here."""
        if not name or not (self.takes_unknown or name in self.offered):
            raise Unreadable

    def read(self, cursor: Cursor, pattern: re.Pattern[str], behind: str) -> str:
        """Return the name at the cursor, empty without one. Raises Unfinished."""
        return self.read_offered(cursor, behind) or cursor.take_match(pattern)

    def read_offered(self, cursor: Cursor, behind: str) -> str:
        """Return the offered name at the cursor, followed by the given text, empty if none. Raises Unfinished."""
        for name in self.offered:
            if cursor.take(name + behind):
                cursor.position -= len(behind)
                return name
        return ""

    def failed(self, cursor: Cursor, call: WrittenCall, arguments_at: int) -> WrittenCall:
        """Return the call of a tool whose arguments, from that position on, cannot be read.

        Raises:
            Unreadable: the name is no offered tool, so it was no call.
        """
        if call.name not in self.offered:
            raise Unreadable
        cursor.position = arguments_at
        return replace(call, arguments=None)
