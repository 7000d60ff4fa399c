"""Lists on the Llama Stack wire: the query, and the page of an answer.

Source: the contract's PaginatedResponse, with a `cursor` of ours next to it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from turnstone.dialects.json_objects import after_entries, before_entries
from turnstone.dialects.llama_stack.requests import only
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.lists import ORDER_KEY, ListQuery, checked_cursor
from turnstone.domain.values.frozen import Frozen

ALL = -1
LARGEST = 1_000_000_000
NOTHING = ["", "null"]  # values that clients send for an omitted number


def _number_from(least: int) -> dict[str, Any]:
    return {"anyOf": [{"type": "integer", "minimum": least, "maximum": LARGEST}, {"enum": NOTHING}]}


QUERY: dict[str, dict[str, Any]] = {
    "start_index": {"description": "How many entries to leave out.", "schema": _number_from(0)},
    "limit": {"description": "How many entries at most; -1, or nothing, for all.", "schema": _number_from(ALL)},
    "cursor": {
        "description": "Continue where the answer with this cursor ended, at the same cost everywhere in the list.",
        # the length excludes a line's end, before which some patterns' ends match, too
        "schema": {
            "anyOf": [
                {"type": "string", "pattern": f"^{ORDER_KEY.pattern}$", "minLength": 36, "maxLength": 36},
                {"const": ""},
            ]
        },
    },
}
NAME = {"description": "Only agents of this name.", "schema": {"type": "string"}}
HEAD = before_entries({}, "data")


class Page(Frozen):
    """A part of a list. `cursor` continues, null at the end; `url` is the list's path."""

    data: tuple[dict[str, Any], ...]
    has_more: bool
    url: str
    cursor: str | None = None


def list_query(query: Mapping[str, Sequence[str]], *, by_name: bool = False) -> ListQuery:
    """Return the requested part of a list, filtered by name in lists that support it. Raises InvalidRequest."""
    limit = _whole_number(query, "limit", ALL, at_least=ALL)
    cursor = only(query, "cursor")
    return ListQuery(
        start_index=_whole_number(query, "start_index", 0, at_least=0),
        limit=None if limit == ALL else limit,
        cursor=checked_cursor(cursor) if cursor else None,
        name=only(query, "name") if by_name else None,
    )


def session_entry(shown: Mapping[str, Any]) -> bytes:
    """Return a session of a list as wire JSON: without turns, which a list never reads."""
    names = ("session_id", "session_name", "started_at")
    return to_json({**{name: shown[name] for name in names}, "turns": []})


def page_tail(url: str, cursor: str | None, *, has_more: bool) -> bytes:
    """Return the JSON of a page after the entries."""
    return after_entries({"has_more": has_more, "url": url, "cursor": cursor})


def _whole_number(query: Mapping[str, Sequence[str]], name: str, otherwise: int, *, at_least: int) -> int:
    text = only(query, name)
    if text is None or text in NOTHING:
        return otherwise
    text = text.removesuffix(".0")  # a whole number, too, in terms of JSON schemas
    digits = text.removeprefix("-")
    is_number = digits.isascii() and digits.isdecimal() and len(digits) <= len(str(LARGEST))
    if not is_number or not at_least <= int(text) <= LARGEST:
        raise InvalidRequest(f"{name}: must be a whole number of at least {at_least}", ("query", name))
    return int(text)
