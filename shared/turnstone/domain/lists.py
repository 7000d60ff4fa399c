"""Query of a list, and its cursor."""

import re

from turnstone.domain.errors import InvalidRequest
from turnstone.domain.values.frozen import Frozen

ORDER_KEY = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

BEGINNING = "00000000-0000-0000-0000-000000000000"  # the cursor before a list's first entry, whose key has a time


class ListQuery(Frozen):
    """The requested part of a list.

    Attributes:
        start_index: the number of visible entries to skip.
        limit: the maximum number; None for all.
        cursor: the position to continue after, from an earlier answer.
        name: only entries of that name.
    """

    start_index: int = 0
    limit: int | None = None
    cursor: str | None = None
    name: str | None = None


def checked_cursor(text: str) -> str:
    """Return the cursor's position in a list. Raises InvalidRequest for a cursor that no answer can contain."""
    if not ORDER_KEY.fullmatch(text):
        raise InvalidRequest("cursor: not issued by this API", ("cursor",))
    return text
