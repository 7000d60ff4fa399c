"""Filters of a search over the attributes of documents and the metadata of their chunks.

Source: the filters of OpenAI's vector store search (`eq`, `ne`, `gt`, `gte`, `lt`, `lte`, `in`, `nin`, `and`, `or`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import ge, gt, le, lt
from typing import Any, NamedTuple

from turnstone.domain.errors import InvalidRequest

MOST_LEVELS = 8
MOST_PARTS = 256
Location = tuple[str | int, ...]
_ORDERED: Mapping[str, Callable[[Any, Any], bool]] = {"gt": gt, "gte": ge, "lt": lt, "lte": le}
_COMPARISONS = ("eq", "ne", *_ORDERED, "in", "nin")
_JOINED = ("and", "or")


class Comparison(NamedTuple):
    """A condition on one value. A missing value meets `ne` and `nin` only."""

    type: str
    key: str
    value: Any

    def matches(self, values: Mapping[str, Any]) -> bool:
        """Return whether the values meet the condition."""
        found = values.get(self.key)
        match self.type:
            case "eq":
                return _are_equal(found, self.value)
            case "ne":
                return not _are_equal(found, self.value)
            case "in":
                return any(_are_equal(found, value) for value in self.value)
            case "nin":
                return not any(_are_equal(found, value) for value in self.value)
        return _are_comparable(found, self.value) and _ORDERED[self.type](found, self.value)


class Compound(NamedTuple):
    """Several filters, of which all (`and`) or one (`or`) must match."""

    type: str
    filters: tuple[Filter, ...]

    def matches(self, values: Mapping[str, Any]) -> bool:
        """Return whether the values meet the filters."""
        joined = all if self.type == "and" else any
        return joined(each.matches(values) for each in self.filters)


Filter = Comparison | Compound


def parsed(given: Any, location: Location) -> Filter:
    """Return the filter of a request. Raises InvalidRequest, which names the wrong part."""
    if _parts(given) > MOST_PARTS:
        raise _wrong(location, f"a filter has {MOST_PARTS} parts at most")
    return _parsed(given, location, MOST_LEVELS)


def _parsed(given: Any, location: Location, levels: int) -> Filter:
    if not isinstance(given, dict):
        raise _wrong(location, "a filter is an object with a `type`")
    if levels == 0:
        raise _wrong(location, f"filters are nested {MOST_LEVELS} deep at most")
    kind = given.get("type")
    if kind in _JOINED:
        return _compound(given, location, levels)
    if kind in _COMPARISONS:
        return _comparison(given, location)
    raise _wrong((*location, "type"), f"must be one of {', '.join((*_COMPARISONS, *_JOINED))}")


def _compound(given: dict[str, Any], location: Location, levels: int) -> Compound:
    _refuse_others(given, {"type", "filters"}, location)
    inner = given.get("filters")
    if not isinstance(inner, list) or not inner:
        raise _wrong((*location, "filters"), "must be a list of one filter or more")
    inside = (*location, "filters")
    return Compound(given["type"], tuple(_parsed(each, (*inside, at), levels - 1) for at, each in enumerate(inner)))


def _comparison(given: dict[str, Any], location: Location) -> Comparison:
    _refuse_others(given, {"type", "key", "value"}, location)
    kind, key, value = given["type"], given.get("key"), given.get("value")
    if not isinstance(key, str) or not key:
        raise _wrong((*location, "key"), "must be the name of an attribute")
    if kind in ("in", "nin"):
        if not isinstance(value, list) or not value or not all(_is_value(each) for each in value):
            raise _wrong((*location, "value"), "must be a list of texts, numbers or booleans")
        return Comparison(kind, key, tuple(value))
    if not _is_value(value):
        raise _wrong((*location, "value"), "must be a text, a number or a boolean")
    if kind in _ORDERED and isinstance(value, bool):
        raise _wrong((*location, "value"), f"must be a text or a number: booleans have no order for {kind!r}")
    return Comparison(kind, key, value)


def _refuse_others(given: dict[str, Any], allowed: set[str], location: Location) -> None:
    for name in given.keys() - allowed:
        raise _wrong((*location, name), "is no part of a filter")


def _parts(given: Any) -> int:
    """Return the number of filters and values, leaving out those nested too deep."""
    count, pending = 0, [(given, 0)]
    while pending and count <= MOST_PARTS:
        part, level = pending.pop()
        count += 1
        if isinstance(part, dict) and level <= MOST_LEVELS:
            for inner in (part.get("filters"), part.get("value")):
                if isinstance(inner, list):
                    pending.extend((each, level + 1) for each in inner[: MOST_PARTS + 1])
    return count


def _is_value(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _are_equal(found: Any, value: Any) -> bool:
    """Return whether the values are equal; a boolean equals no number."""
    return isinstance(found, bool) is isinstance(value, bool) and bool(found == value)


def _are_comparable(found: Any, value: Any) -> bool:
    if isinstance(found, bool):
        return False
    kind = str if isinstance(value, str) else (int, float)
    return isinstance(found, kind)


def _wrong(location: Location, why: str) -> InvalidRequest:
    return InvalidRequest(f"{'.'.join(map(str, location))}: {why}", location)
