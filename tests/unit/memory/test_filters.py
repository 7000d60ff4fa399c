"""Filters of a search.

Covers: domain/memory/filters
"""

import pytest

from turnstone.domain.errors import InvalidRequest
from turnstone.domain.memory.filters import MOST_LEVELS, MOST_PARTS, parsed

VALUES = {"year": 2024, "lang": "sv", "is_draft": False, "score": 0.5}
FIELD = ("filters",)


def _is_met(given: object) -> bool:
    return parsed(given, FIELD).matches(VALUES)


@pytest.mark.parametrize(
    ("kind", "key", "value", "is_met"),
    [
        ("eq", "year", 2024, True),
        ("eq", "year", "2024", False),
        ("eq", "is_draft", 0, False),
        ("eq", "is_draft", False, True),
        ("eq", "missing", "x", False),
        ("ne", "year", 2023, True),
        ("ne", "missing", "x", True),
        ("gt", "year", 2023, True),
        ("gt", "year", 2024, False),
        ("gte", "year", 2024, True),
        ("lt", "score", 1, True),
        ("lte", "score", 0.5, True),
        ("gt", "lang", "se", True),
        ("gt", "lang", 1, False),
        ("gte", "is_draft", 0, False),
        ("lt", "missing", 1, False),
        ("in", "lang", ["en", "sv"], True),
        ("in", "is_draft", [0], False),
        ("nin", "lang", ["en"], True),
        ("nin", "lang", ["sv"], False),
        ("nin", "missing", ["sv"], True),
    ],
)
def test_each_operator_compares_values_of_one_kind(kind: str, key: str, value: object, is_met: bool) -> None:
    assert _is_met({"type": kind, "key": key, "value": value}) is is_met


def test_filters_nest() -> None:
    def nested(year: int) -> dict[str, object]:
        newer = {"type": "and", "filters": [{"type": "gt", "key": "year", "value": year}]}
        either = {"type": "or", "filters": [newer, {"type": "eq", "key": "lang", "value": "en"}]}
        return {"type": "and", "filters": [either, {"type": "ne", "key": "is_draft", "value": True}]}

    assert _is_met(nested(2023))
    assert not _is_met(nested(2024))


@pytest.mark.parametrize(
    ("given", "location"),
    [
        ([], FIELD),
        ({}, (*FIELD, "type")),
        ({"type": "like", "key": "a", "value": "b"}, (*FIELD, "type")),
        ({"type": "eq", "value": "b"}, (*FIELD, "key")),
        ({"type": "eq", "key": "", "value": "b"}, (*FIELD, "key")),
        ({"type": "eq", "key": "a"}, (*FIELD, "value")),
        ({"type": "eq", "key": "a", "value": [1]}, (*FIELD, "value")),
        ({"type": "gt", "key": "a", "value": True}, (*FIELD, "value")),
        ({"type": "in", "key": "a", "value": []}, (*FIELD, "value")),
        ({"type": "in", "key": "a", "value": [{}]}, (*FIELD, "value")),
        ({"type": "eq", "key": "a", "value": 1, "more": 1}, (*FIELD, "more")),
        ({"type": "and", "filters": []}, (*FIELD, "filters")),
        ({"type": "or", "filters": [{"type": "eq", "key": "a", "value": 1}, 7]}, (*FIELD, "filters", 1)),
    ],
)
def test_an_invalid_filter_is_refused_with_its_location(given: object, location: tuple[str | int, ...]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parsed(given, FIELD)
    assert refused.value.location == location


def test_deep_and_wide_filters_are_refused() -> None:
    deep: dict[str, object] = {"type": "eq", "key": "a", "value": 1}
    for _ in range(MOST_LEVELS):
        deep = {"type": "and", "filters": [deep]}
    wide = {"type": "in", "key": "a", "value": list(range(MOST_PARTS))}
    for given in (deep, wide):
        with pytest.raises(InvalidRequest, match="at most"):
            parsed(given, FIELD)
    assert _is_met({"type": "in", "key": "year", "value": [*range(MOST_PARTS - 2), 2024]})
