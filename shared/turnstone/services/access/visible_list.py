"""A page of a list, read entry by entry."""

from collections.abc import Callable, Iterator

from turnstone.domain.lists import BEGINNING, ListQuery
from turnstone.store.layout.listing import ListEntry

MOST_HIDDEN = 1_000


class Listing:
    """The entries of a list that match a query and that the caller may see, read from the store on iteration.

    Attributes:
        has_more: whether entries are left, valid after the last entry. A limit of 0 yields none, and sets `has_more` to
            whether there are any.
        cursor: of the next page, None only at the end of the list.
    """

    def __init__(
        self,
        entries: Iterator[ListEntry],
        query: ListQuery,
        is_shown: Callable[[ListEntry], bool],
        most_before_first: int = MOST_HIDDEN,
    ) -> None:
        """Read from `entries`, which begin after the query's cursor.

        Args:
            most_before_first: limit of hidden entries before the first shown one, for a query with a limit.
        """
        self._most_before_first = most_before_first
        self._entries = entries
        self._query = query
        self._is_shown = is_shown
        self.has_more = False
        self.cursor: str | None = None

    def __iter__(self) -> Iterator[ListEntry]:
        """Yield the entries; fewer than a query's limit where too many in between are hidden."""
        query, left_out, given, hidden, last = self._query, 0, 0, 0, self._query.cursor or BEGINNING
        for entry in self._entries:
            if not self._is_shown(entry):
                hidden += 1
                if query.limit is not None and hidden >= (MOST_HIDDEN if given else self._most_before_first):
                    self.has_more, self.cursor = True, entry.order
                    return
            elif left_out < query.start_index:
                left_out += 1
            elif query.limit is not None and given >= query.limit:
                self.has_more, self.cursor = True, last
                return
            else:
                given += 1
                yield entry
            last = entry.order
