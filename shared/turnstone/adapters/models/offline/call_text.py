"""Parse calls written in text as `name(key=value, …)`, so that a person can call a tool without a model."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

NAME_CHARACTERS = r"[\w\-:/.]"
CALL_START = re.compile(rf"(?<!{NAME_CHARACTERS})({NAME_CHARACTERS}++)\(")
KEY = re.compile(r"\s*([A-Za-z_][\w\-]*)\s*=\s*")
QUOTED = re.compile(r"'(?:[^'\\]++|\\.)*+'|\"(?:[^\"\\]++|\\.)*+\"", re.DOTALL)
BARE = re.compile(r"[^,()'\"\[\]{}]+")
VALUE_END = re.compile(r"\s*(?=[,)])")
SPACE = re.compile(r"\s*")
PYTHON_CONSTANTS = {"True": True, "False": False, "None": None}
JSON = json.JSONDecoder(parse_constant=str)


class CallSyntaxError(Exception):
    """The text after a tool's name and a parenthesis is not `key=value` pairs."""

    def __init__(self, tool_name: str) -> None:
        super().__init__(f"the call of {tool_name!r} can't be read")
        self.tool_name = tool_name


class ScriptedCall(NamedTuple):
    name: str
    arguments: dict[str, Any]


def calls_in(text: str, tool_names: Sequence[str]) -> tuple[ScriptedCall, ...]:
    """Return the calls of these tools in textual order; other parentheses are plain text.

    Raises:
        CallSyntaxError: the arguments of a tool's call cannot be parsed.
    """
    return tuple(_each_call(text, frozenset(tool_names))) if tool_names else ()


def _each_call(text: str, tool_names: frozenset[str]) -> Iterator[ScriptedCall]:
    position = 0
    while start := CALL_START.search(text, position):
        position = start.end()
        name = start[1]
        if name in tool_names:
            arguments, position = _arguments_at(text, position, name)
            yield ScriptedCall(name, arguments)


def _arguments_at(text: str, position: int, tool_name: str) -> tuple[dict[str, Any], int]:
    """Return the arguments starting here, and the position after their closing parenthesis."""
    arguments: dict[str, Any] = {}
    while True:
        position = _behind_space(text, position)
        if text.startswith(")", position):
            return arguments, position + 1
        key = KEY.match(text, position)
        if key is None:
            raise CallSyntaxError(tool_name)
        value = _value_at(text, key.end())
        if value is None:
            raise CallSyntaxError(tool_name)
        arguments[key[1]], position = value
        position += text.startswith(",", position)


def _value_at(text: str, position: int) -> tuple[Any, int] | None:
    """Return the value starting here and the position of the comma or parenthesis after it, None without a value."""
    if text.startswith(("{", "["), position):
        value = _json_at(text, position)
    elif text.startswith(("'", '"'), position):
        value = _quoted_at(text, position)
    else:
        value = _bare_at(text, position)
    end = None if value is None else VALUE_END.match(text, value[1])
    return None if value is None or end is None else (value[0], end.end())


def _json_at(text: str, position: int) -> tuple[Any, int] | None:
    try:
        return JSON.raw_decode(text, position)
    except (ValueError, RecursionError):
        return None


def _quoted_at(text: str, position: int) -> tuple[Any, int] | None:
    quoted = QUOTED.match(text, position)
    if quoted is None:
        return None
    # only the value: a JSON error counts the lines of all text before it
    return _from_json(quoted[0], re.sub(r"\\(.)", r"\1", quoted[0][1:-1], flags=re.DOTALL)), quoted.end()


def _bare_at(text: str, position: int) -> tuple[Any, int] | None:
    bare = BARE.match(text, position)
    if bare is None or not bare[0].strip():
        return None
    word = bare[0].strip()
    return _from_json(word, PYTHON_CONSTANTS.get(word, word)), bare.end()


def _from_json(text: str, otherwise: Any) -> Any:
    try:
        return JSON.decode(text)
    except (ValueError, RecursionError):
        return otherwise


def _behind_space(text: str, position: int) -> int:
    space = SPACE.match(text, position)
    return position if space is None else space.end()
