"""What was read in a model's text, and by which rules a name in it is that of a tool. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from turnstone.adapters.models.prompted.cursor import Cursor, Unreadable


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call that a model wrote.

    Attributes:
        arguments: a text where they can't be read; None if that text is all the rest of the answer.
        positional: those that were given without a name.
    """

    name: str
    arguments: Mapping[str, Any] | str | None
    positional: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Names:
    """Which names can be called at a place.

    Attributes:
        known: those of the tools on offer, the longest first.
        takes_unknown: what looks like a call of another tool is one, too.
        takes_bare: a call needs nothing around it.
    """

    known: tuple[str, ...]
    takes_unknown: bool = False
    takes_bare: bool = False

    def check(self, name: str) -> None:
        """Raise Unreadable if nobody can be called by this name here."""
        if not name or not (self.takes_unknown or name in self.known):
            raise Unreadable

    def read(self, cursor: Cursor, pattern: re.Pattern[str], behind: str) -> str:
        """Return the name written here, empty if there is none. Raises Unfinished."""
        return self.read_known(cursor, behind) or cursor.take_match(pattern)

    def read_known(self, cursor: Cursor, behind: str) -> str:
        """Return the known name that is here with that behind it, empty if there is none. Raises Unfinished."""
        for name in self.known:
            if cursor.take(name + behind):
                cursor.position -= len(behind)
                return name
        return ""

    def failed(self, cursor: Cursor, call: WrittenCall, arguments_at: int) -> WrittenCall:
        """Return the call of a tool whose arguments, which began there, can't be read.

        Raises:
            Unreadable: nobody knows the tool, so it was no call.
        """
        if call.name not in self.known:
            raise Unreadable
        cursor.position = arguments_at
        return replace(call, arguments=None)
