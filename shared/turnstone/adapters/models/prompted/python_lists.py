"""Calls as Python writes them, in a list: `[NAME(PARAMETER=VALUE), …]`. Pure; nothing is ever executed.

Source: answers of Llama 3.2 to 4 instructed to write Python: no brackets around a call, a bracket too few,
positional arguments, one dictionary, JSON's `true` and `null`, Llama 3.1's `NAME.call(…)`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from turnstone.adapters.models.prompted.calls import Names, WrittenCall
from turnstone.adapters.models.prompted.cursor import Cursor, Unreadable
from turnstone.adapters.models.prompted.literals import IDENTIFIER, closes, read_value

HOW = (
    "To call functions, answer with one list of calls as Python writes them, and write nothing else:\n"
    "[NAME(PARAMETER=VALUE, …), NAME(PARAMETER=VALUE, …)]\n"
    "Strings are quoted; True, False and None are written like this."
)
NAME = re.compile(r"[\w.:/-]*")
KEYWORD = re.compile(r"[A-Za-z_][\w]*")
CALL_METHOD = ".call"


def written(calls: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Return the calls, given by name and arguments, in this format."""
    return "[" + ", ".join(f"{name}({_written_arguments(arguments)})" for name, arguments in calls) + "]"


def read(cursor: Cursor, names: Names) -> tuple[WrittenCall, ...]:
    """Return the calls that begin here: a list, or a bare call where permitted. Raises Unfinished, Unreadable."""
    if not cursor.take("["):
        if not names.takes_bare:
            raise Unreadable
        return (_call(cursor, Names(names.offered)),)
    calls: list[WrittenCall] = []
    while True:
        cursor.skip_spaces()
        if calls and (cursor.take("]") or cursor.is_over):
            break
        calls.append(_call(cursor, names))
        if calls[-1].arguments is None:
            break
        cursor.skip_spaces()
        if not cursor.take(","):
            cursor.take("]")
            break
    return tuple(calls)


def _call(cursor: Cursor, names: Names) -> WrittenCall:
    name = names.read(cursor, NAME, "(")
    if name not in names.offered:
        name = name.removesuffix(CALL_METHOD)
    names.check(name)
    cursor.expect("(")
    arguments_at = cursor.position
    try:
        named, positional = _arguments(cursor)
    except Unreadable:
        return names.failed(cursor, WrittenCall(name, None), arguments_at)
    return WrittenCall(name, named, positional)


def _arguments(cursor: Cursor) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Return the named and positional arguments in the parentheses. Raises Unfinished, Unreadable."""
    named: dict[str, Any] = {}
    positional: list[Any] = []
    cursor.skip_spaces()
    is_closed = cursor.take(")")
    while not is_closed:
        keyword = _keyword(cursor)
        value = read_value(cursor)
        if keyword == "**":
            if not isinstance(value, dict):
                raise Unreadable
            named |= value
        elif keyword:
            named[keyword] = value
        else:
            positional.append(value)
        is_closed = closes(cursor, ")")
    return named, tuple(positional)


def _keyword(cursor: Cursor) -> str:
    """Return the name before a value, `**` before a dictionary of arguments, empty before a positional value."""
    if cursor.take("**"):
        return "**"
    start = cursor.position
    keyword = cursor.take_match(IDENTIFIER)
    if keyword:
        cursor.skip_spaces()
        if cursor.take("="):
            return keyword
    cursor.position = start
    return ""


def _written_arguments(arguments: Mapping[str, Any]) -> str:
    if all(KEYWORD.fullmatch(name) for name in arguments):
        return ", ".join(f"{name}={_written(value)}" for name, value in arguments.items())
    return f"**{_written(arguments)}"


def _written(value: Any) -> str:
    """Return a value of JSON as a literal of Python."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_written(str(key))}: {_written(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_written, value)) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
