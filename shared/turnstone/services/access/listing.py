"""Reading a part of a list, entry by entry."""

from collections.abc import Callable, Iterator

from turnstone.domain.lists import BEGINNING, ListQuery
from turnstone.store.layout.listing import ListEntry

MOST_HIDDEN = 1_000


class Listing:
    """The entries of a list that a reader may see and wants, read as they are drained.

    Attributes:
        has_more: whether there is more to be read; known when the entries are drained. None are given where none are
            wanted (a limit of 0), which finds out whether there are any.
        cursor: where to continue then, None at the end of the list and only there.
    """

    def __init__(
        self,
        entries: Iterator[ListEntry],
        wanted: ListQuery,
        is_shown: Callable[[ListEntry], bool],
        most_before_first: int = MOST_HIDDEN,
    ) -> None:
        """Take the entries behind the cursor.

        Args:
            most_before_first: how many that are not shown may come before the first that is, where there is a limit.
        """
        self._most_before_first = most_before_first
        self._entries = entries
        self._wanted = wanted
        self._is_shown = is_shown
        self.has_more = False
        self.cursor: str | None = None

    def __iter__(self) -> Iterator[ListEntry]:
        """Yield the entries; with a limit, fewer than wanted when there are too many in between that are not shown."""
        wanted, left_out, given, hidden, last = self._wanted, 0, 0, 0, self._wanted.cursor or BEGINNING
        for entry in self._entries:
            if not self._is_shown(entry):
                hidden += 1
                if wanted.limit is not None and hidden >= (MOST_HIDDEN if given else self._most_before_first):
                    self.has_more, self.cursor = True, entry.order
                    return
            elif left_out < wanted.start_index:
                left_out += 1
            elif wanted.limit is not None and given >= wanted.limit:
                self.has_more, self.cursor = True, last
                return
            else:
                given += 1
                yield entry
            last = entry.order
