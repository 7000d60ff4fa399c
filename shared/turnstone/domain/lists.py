"""What a reader wants of a list, and where a list goes on."""

import re

from turnstone.domain.errors import InvalidRequest
from turnstone.domain.values.frozen import Frozen

ORDER_KEY = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

BEGINNING = "00000000-0000-0000-0000-000000000000"  # the cursor before a list's first entry, whose key has a time


class Wanted(Frozen):
    """Which part of a list.

    Attributes:
        start_index: how many entries to leave out, of those that the reader may see.
        limit: how many at most; None for all.
        cursor: continue behind this place, given by an earlier answer.
        name: only entries of that name.
    """

    start_index: int = 0
    limit: int | None = None
    cursor: str | None = None
    name: str | None = None


def checked_cursor(text: str) -> str:
    """Return the place in a list that a cursor names. Raises InvalidRequest if no answer can have given it."""
    if not ORDER_KEY.fullmatch(text):
        raise InvalidRequest("cursor: not issued by this API", ("cursor",))
    return text
