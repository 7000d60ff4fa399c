"""Calls in tags: `<function=NAME>{…}</function>`. Pure.

Source: answers of Llama 3.1 to 3.3 instructed to write tags: a missing `>` or end tag, a stray quote before
the end tag, the name in brackets or as an attribute.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from turnstone.adapters.models.prompted.calls import Names, WrittenCall
from turnstone.adapters.models.prompted.cursor import Cursor, Unreadable
from turnstone.adapters.models.prompted.literals import read_value

HOW = (
    "To call functions, answer with a tag for each call, one a line, and write nothing else:\n"
    '<function=NAME>{"PARAMETER": VALUE}</function>'
)
OPENING = "<function"
CLOSING = "</function>"
BEFORE_NAME = ("(", "/", ":")
QUOTE = re.compile(r"""\s*["']?""")
NAME = re.compile(r"""[^<>{}()\[\]\s"',;=]*""")
BEHIND_NAME = re.compile(r"""["']?\s*[)\]},;]?\s*""")
BEHIND_ARGUMENTS = re.compile(r"""[\s"')\]}>]*""")


def written(calls: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Return the calls, given by name and arguments, in this format."""
    return "\n".join(
        f"<function={name}>{json.dumps(arguments, ensure_ascii=False)}</function>" for name, arguments in calls
    )


def read(cursor: Cursor, names: Names) -> tuple[WrittenCall, ...]:
    """Return the call whose tag begins here. Raises Unfinished, Unreadable."""
    cursor.expect(OPENING)
    name = _name(cursor, names)
    names.check(name)
    cursor.take_match(BEHIND_NAME)
    cursor.take(">")
    cursor.skip_spaces()
    arguments_at = cursor.position
    try:
        arguments = _arguments(cursor)
    except Unreadable:
        return (names.failed(cursor, WrittenCall(name, None), arguments_at),)
    if not cursor.is_over:
        cursor.take_match(BEHIND_ARGUMENTS)
        cursor.take(CLOSING)
    return (WrittenCall(name, arguments),)


def _name(cursor: Cursor, names: Names) -> str:
    """Return the name in the tag. Raises Unfinished, or Unreadable for another tag."""
    if cursor.take("="):
        offered = names.read_offered(cursor, ">")
        if offered:
            return offered
    elif not (cursor.take_any(BEFORE_NAME) or _takes_attribute(cursor)):
        raise Unreadable
    cursor.take_match(QUOTE)
    return cursor.take_match(NAME)


def _takes_attribute(cursor: Cursor) -> bool:
    cursor.skip_spaces()
    if not cursor.take("name"):
        return False
    cursor.skip_spaces()
    return cursor.take("=")


def _arguments(cursor: Cursor) -> Mapping[str, Any]:
    """Return the content of the tags: an object, one in brackets, or nothing. Raises Unfinished, Unreadable."""
    if cursor.is_over:
        if cursor.ending == "cut":
            raise Unreadable
        return {}
    if cursor.take("(") or cursor.take('"'):
        cursor.skip_spaces()
    if cursor.take(")") or cursor.take(CLOSING):
        return {}
    arguments = read_value(cursor)
    if not isinstance(arguments, dict):
        raise Unreadable
    return arguments
