"""Locations of problems in a request, and sentences about them."""

from collections.abc import Mapping, Sequence
from typing import Any

IN_THE_URL = "query"


def field_of(location: Sequence[str | int]) -> str:
    """Return the name of the field or parameter at the location, such as `messages.0.content`; empty for the body."""
    is_parameter = len(location) > 1 and location[0] == IN_THE_URL and isinstance(location[1], str)
    path = location[1:] if is_parameter else location
    return ".".join(map(str, path))


def sentence_of(problems: Sequence[Mapping[str, Any]]) -> str:
    """Return one sentence about problems with `loc` and `msg`, which names each field once."""
    sentence = ""
    last = None
    for problem in problems:
        field, reason = field_of(problem["loc"]), _reason(problem)
        named = f"{field}: {reason}" if field else reason
        if sentence:
            sentence += f", or {reason[:1].lower()}{reason[1:]}" if field and field == last else f"; {named}"
        else:
            sentence = named
        last = field
    return sentence


def _reason(problem: Mapping[str, Any]) -> str:
    """Return the text without a leading field name."""
    text = str(problem["msg"])
    location = problem["loc"]
    names = [field_of(location[start:]) for start in range(len(location))]
    leading = next((name for name in names if name and text.startswith(f"{name}: ")), None)
    return text if leading is None else text[len(leading) + 2 :]
