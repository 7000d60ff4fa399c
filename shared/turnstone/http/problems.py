"""What is wrong with a body, in words of JSON: who sent it knows lists and objects, not tuples and dictionaries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import ValidationError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MOST_TOLD = 20
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
NAMED_BETTER = {"Tuple": "List", "Dictionary": "Object"}


def problems_of(error: ValidationError) -> list[dict[str, object]]:
    """Return where the first problems are, what they are, and of which type: the dialect's way to tell them."""
    found = error.errors(include_url=False, include_input=False)
    true = [
        problem
        for problem in found
        if not _only_misses_the_wrong(problem, found) and not _is_other_branch(problem, found)
    ]
    return [{"loc": problem["loc"], "msg": _said(problem), "type": problem["type"]} for problem in true[:MOST_TOLD]]


def _said(problem: ErrorDetails) -> str:
    kind = problem["type"]
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


def _is_other_branch(problem: ErrorDetails, found: Sequence[ErrorDetails]) -> bool:
    """Tell whether a list is no text and no object only because it was taken as a list, of which a member is wrong."""
    place, depth = problem["loc"][:-1], len(problem["loc"])
    if problem["type"] not in ("string_type", "model_attributes_type"):
        return False
    others = [other["loc"] for other in found if len(other["loc"]) > depth]
    return any(other[: depth - 1] == place and _is_branch(other[depth - 1], other[depth]) for other in others)


def _is_branch(branch: str | int, member: str | int) -> bool:
    return isinstance(branch, str) and branch.startswith(("tuple[", "list[")) and isinstance(member, int)
