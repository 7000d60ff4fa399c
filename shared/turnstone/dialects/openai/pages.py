"""Pages of OpenAI's lists: the query of a page, and the ids at its ends.

Source: the OpenAI API reference; the id of an entry is the cursor to continue after.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import Field

from turnstone.domain.errors import InvalidRequest
from turnstone.domain.values.ids import uuid7, uuid7_milliseconds

LARGEST = 1_000_000_000
Query = Mapping[str, Sequence[str]]
Entry = TypeVar("Entry")
HAS_MORE = Annotated[bool, Field(description="Whether more follow behind `last_id`.", examples=[False])]
OF_LIST = Annotated[Literal["list"], Field(description="What this is.", examples=["list"])]


class PageRule(NamedTuple):
    """The pages of a list.

    Attributes:
        of: what the entries are, for the API's document.
        pattern: of their ids.
        order: of a page whose query names none, `asc` or `desc`.
        usual: entries of a page whose query has no limit.
        most: entries of any page.
        is_cut: whether a higher limit counts as `most`; else it is refused.
    """

    of: str
    pattern: str
    example: str
    order: str
    usual: int
    most: int
    is_cut: bool

    @property
    def query(self) -> dict[str, dict[str, Any]]:
        """The parameters of a page, for the API's document."""
        largest = LARGEST if self.is_cut else self.most
        never = f", and never more than {self.most}" if self.is_cut else ""
        return {
            "after": {
                "description": f"Continue behind the {self.of} of this id.",
                "schema": {"anyOf": [{"type": "string", "pattern": f"^{self.pattern}$"}, {"const": ""}]},
                "example": self.example,
            },
            "limit": {
                "description": f"How many at most; {self.usual} if left out{never}.",
                "schema": {"anyOf": [{"type": "integer", "minimum": 1, "maximum": largest}, {"const": ""}]},
            },
            "order": {
                "description": f"By time: asc or desc; {self.order} if left out.",
                "schema": {"enum": ["asc", "desc", ""]},
            },
        }

    def limit(self, query: Query) -> int:
        """Return how many entries are requested. Raises InvalidRequest."""
        text = only_value(query, "limit")
        if text is None:
            return self.usual
        text = text.removesuffix(".0")  # a whole number, too, in terms of JSON schemas
        largest = LARGEST if self.is_cut else self.most
        is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(largest))
        if not is_number or not 1 <= int(text) <= largest:
            bound = "of at least 1" if self.is_cut else f"from 1 to {largest}"
            raise InvalidRequest(f"limit: must be a whole number {bound}", ("query", "limit"))
        return min(int(text), self.most)

    def is_newest_first(self, query: Query) -> bool:
        """Return whether the entries are requested in descending order. Raises InvalidRequest."""
        order = only_value(query, "order") or self.order
        if order not in ("asc", "desc"):
            raise InvalidRequest("order: must be asc or desc", ("query", "order"))
        return order == "desc"


class EndIds:
    """The ids of the first and the last entry of a page, available once its entries are consumed."""

    def __init__(self) -> None:
        self.first = self.last = ""

    def noted(self, entries: Iterable[tuple[str, Entry]]) -> Iterator[Entry]:
        """Yield the entries without their ids."""
        for entry_id, entry in entries:
            self.first = self.first or entry_id
            self.last = entry_id
            yield entry


def only_value(query: Query, name: str) -> str | None:
    """Return the single value of that name, None if missing or empty. Raises InvalidRequest for several."""
    return one_value(query, name) or None if name in query else None


def one_value(query: Query, name: str) -> str:
    """Return the single value of a name that is there. Raises InvalidRequest for several."""
    values = query[name]
    if len(values) > 1:
        raise InvalidRequest(f"{name}: must be one value, not {len(values)}", ("query", name))
    return values[0]


def refuse_cursor() -> InvalidRequest:
    """Return the error for a cursor that no answer can contain."""
    return InvalidRequest("after: not issued by this API", ("query", "after"))


def unused_id_near(cursor: str, prefix: str, *, is_newest_first: bool) -> str:
    """Return an unused id at the cursor's millisecond: the cursor itself may be the id of another caller's entry."""
    milliseconds = uuid7_milliseconds(cursor.removeprefix(prefix))
    return prefix + uuid7(milliseconds + is_newest_first, bytes(10))
