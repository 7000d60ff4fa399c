"""Problems of a body in JSON's terms: lists and objects, not tuples and dictionaries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MAX_PROBLEMS = 20
MOST_COMPARED = 200  # with each other
FIELD_NAMED = re.compile(r"(\w+): ")
NO_TAG, WRONG_TAG = "union_tag_not_found", "union_tag_invalid"
LIST = "Input should be a list"
OBJECT = "Input should be an object"
REWORDED = {
    "dict_type": OBJECT,
    "list_type": LIST,
    "model_attributes_type": OBJECT,
    "model_type": OBJECT,
    "none_required": "Input should be null",
    "tuple_type": LIST,
}
Location = tuple[str | int, ...]
NAMED_BETTER = {"Tuple": "List", "Dictionary": "Object"}


def problems_of(error: ValidationError, value: object) -> list[dict[str, object]]:
    """Return the location, message and type of the first problems in the value."""
    found = error.errors(include_url=False, include_input=False)[:MOST_COMPARED]
    located = [_located(problem, value) for problem in found if not _only_misses_the_wrong(problem, found)]
    return [problem for problem in located if not _is_other_branch(problem, located)][:MAX_PROBLEMS]


def _located(problem: ErrorDetails, value: object) -> dict[str, Any]:
    location, reason = _location(problem, value), _reason(problem)
    if problem["type"] == "value_error" and (named := FIELD_NAMED.match(reason)):
        # a rule about several fields of an object, whose branch may have the name of one of them
        holder = next((each for each in (location, location[:-1]) if _has(_at(each, value), named[1])), None)
        if holder is not None:
            location, reason = (*holder, named[1]), reason[named.end() :]
    return {"loc": location, "msg": reason, "type": problem["type"]}


def _location(problem: ErrorDetails, value: object) -> Location:
    """Return the location within the value: pydantic's also names branches of unions and validators."""
    parts = problem["loc"]
    if problem["type"] in (NO_TAG, WRONG_TAG):
        return (*_path(parts, value), problem["ctx"]["discriminator"].strip("'"))
    if problem["type"] != "missing" or not parts:
        return _path(parts, value)
    holder = _path(parts[:-1], value)
    while holder and not isinstance(_at(holder, value), dict):
        holder = holder[:-1]  # a branch with the name of a field
    return (*holder, parts[-1])


def _path(parts: Location, value: object) -> Location:
    """Return the longest sequence of the parts that is a path in the value."""
    found: dict[tuple[int, int], Location] = {}

    def longest(start: int, inner: object) -> Location:
        if start == len(parts):
            return ()
        key = (start, id(inner))  # checked once, as a name may occur in every object on the way
        if key not in found:
            without = longest(start + 1, inner)
            through: Location = ()
            if _has(inner, parts[start]):
                through = (parts[start], *longest(start + 1, _at((parts[start],), inner)))
            # a branch may have the name of a field next to it, which leads nowhere
            found[key] = through if len(through) > len(without) else without
        return found[key]

    return longest(0, value)


def _has(value: object, part: str | int) -> bool:
    if isinstance(value, dict):
        return part in value
    return isinstance(value, list) and isinstance(part, int) and part < len(value)


def _at(path: Location, value: Any) -> object:
    """Return the value at a path."""
    for part in path:
        value = value[part]
    return value


def _reason(problem: ErrorDetails) -> str:
    kind = problem["type"]
    if kind == "value_error":
        return str(problem["ctx"]["error"])
    if kind == NO_TAG:
        return "Field required"
    if kind == WRONG_TAG:
        *others, last = problem["ctx"]["expected_tags"].split(", ")
        return f"Input should be {', '.join(others)} or {last}" if others else f"Input should be {last}"
    if kind in ("too_short", "too_long"):
        context = problem["ctx"]
        how, limit = ("least", context["min_length"]) if kind == "too_short" else ("most", context["max_length"])
        holder = NAMED_BETTER.get(context["field_type"], context["field_type"])
        return f"{holder} should have at {how} {limit} item{'' if limit == 1 else 's'}, not {context['actual_length']}"
    return REWORDED.get(kind, problem["msg"])


def _only_misses_the_wrong(problem: ErrorDetails, found: Sequence[ErrorDetails]) -> bool:
    """Return whether a list is too short only because pydantic does not count an invalid member."""
    if problem["type"] != "too_short":
        return False
    loc, depth = problem["loc"], len(problem["loc"])
    others = [other["loc"] for other in found if len(other["loc"]) > depth]
    return any(other[:depth] == loc and isinstance(other[depth], int) for other in others)


def _is_other_branch(problem: dict[str, Any], located: Sequence[dict[str, Any]]) -> bool:
    """Return whether a list or object has the wrong type only for union branches other than the intended one."""
    loc: Location = problem["loc"]
    if not problem["type"].endswith(("_type", "_error")) or problem["type"] == "value_error":
        return False
    return any(len(other["loc"]) > len(loc) and other["loc"][: len(loc)] == loc for other in located)
