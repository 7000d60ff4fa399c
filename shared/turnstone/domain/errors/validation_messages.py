"""What is wrong with a body, in words of JSON: who sent it knows lists and objects, not tuples and dictionaries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MOST_TOLD = 20
MOST_COMPARED = 200  # with each other
FIELD_NAMED = re.compile(r"(\w+): ")
NO_TAG, WRONG_TAG = "union_tag_not_found", "union_tag_invalid"
LIST = "Input should be a list"
OBJECT = "Input should be an object"
SAID_BETTER = {
    "dict_type": OBJECT,
    "list_type": LIST,
    "model_attributes_type": OBJECT,
    "model_type": OBJECT,
    "none_required": "Input should be null",
    "tuple_type": LIST,
}
Place = tuple[str | int, ...]
NAMED_BETTER = {"Tuple": "List", "Dictionary": "Object"}


def problems_of(error: ValidationError, value: object) -> list[dict[str, object]]:
    """Return where in the value the first problems are, what they are, and of which type."""
    found = error.errors(include_url=False, include_input=False)[:MOST_COMPARED]
    placed = [_placed(problem, value) for problem in found if not _only_misses_the_wrong(problem, found)]
    return [problem for problem in placed if not _is_other_branch(problem, placed)][:MOST_TOLD]


def _placed(problem: ErrorDetails, value: object) -> dict[str, Any]:
    location, reason = _location(problem, value), _reason(problem)
    if problem["type"] == "value_error" and (named := FIELD_NAMED.match(reason)):
        # a rule about several fields of an object, whose branch may have the name of one of them
        holder = next((each for each in (location, location[:-1]) if _has(_at(each, value), named[1])), None)
        if holder is not None:
            location, reason = (*holder, named[1]), reason[named.end() :]
    return {"loc": location, "msg": reason, "type": problem["type"]}


def _location(problem: ErrorDetails, value: object) -> Place:
    """Return the place as the value has it: pydantic also names branches of unions and validators on the way."""
    parts = problem["loc"]
    if problem["type"] in (NO_TAG, WRONG_TAG):
        return (*_path(parts, value), problem["ctx"]["discriminator"].strip("'"))
    if problem["type"] != "missing" or not parts:
        return _path(parts, value)
    holder = _path(parts[:-1], value)
    while holder and not isinstance(_at(holder, value), dict):
        holder = holder[:-1]  # a branch with the name of a field
    return (*holder, parts[-1])


def _path(parts: Place, value: object) -> Place:
    """Return those of the parts that lead into the value, as many as there are."""
    found: dict[tuple[int, int], Place] = {}

    def longest(start: int, inner: object) -> Place:
        if start == len(parts):
            return ()
        key = (start, id(inner))  # looked at once, as a name may stand in every object on the way
        if key not in found:
            without = longest(start + 1, inner)
            through: Place = ()
            if _has(inner, parts[start]):
                through = (parts[start], *longest(start + 1, _at((parts[start],), inner)))
            # a branch may have the name of a field beside it, which leads nowhere
            found[key] = through if len(through) > len(without) else without
        return found[key]

    return longest(0, value)


def _has(value: object, part: str | int) -> bool:
    if isinstance(value, dict):
        return part in value
    return isinstance(value, list) and isinstance(part, int) and part < len(value)


def _at(path: Place, value: Any) -> object:
    """Return what the value has at a path that leads into it."""
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
        told = problem["ctx"]
        how, limit = ("least", told["min_length"]) if kind == "too_short" else ("most", told["max_length"])
        holder = NAMED_BETTER.get(told["field_type"], told["field_type"])
        return f"{holder} should have at {how} {limit} item{'' if limit == 1 else 's'}, not {told['actual_length']}"
    return SAID_BETTER.get(kind, problem["msg"])


def _only_misses_the_wrong(problem: ErrorDetails, found: Sequence[ErrorDetails]) -> bool:
    """Tell whether a list is too short only because a member of it is wrong, which pydantic does not count then."""
    if problem["type"] != "too_short":
        return False
    place, depth = problem["loc"], len(problem["loc"])
    others = [other["loc"] for other in found if len(other["loc"]) > depth]
    return any(other[:depth] == place and isinstance(other[depth], int) for other in others)


def _is_other_branch(problem: dict[str, Any], placed: Sequence[dict[str, Any]]) -> bool:
    """Tell whether a list or object is of the wrong type only for other branches of a union than the one meant."""
    place: Place = problem["loc"]
    if not problem["type"].endswith(("_type", "_error")) or problem["type"] == "value_error":
        return False
    return any(len(other["loc"]) > len(place) and other["loc"][: len(place)] == place for other in placed)
