"""Calls as JSON objects, one a line: `{"type": "function", "name": …, "parameters": {…}}`. Pure.

Source: answers of Llama 3.1 to 4 instructed to write JSON: `arguments` for `parameters`, OpenAI's nesting in
`function`, lists of calls, arguments as a string of JSON, a last brace too few or too many.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from turnstone.adapters.models.prompted.calls import Names, WrittenCall
from turnstone.adapters.models.prompted.cursor import Cursor, Unfinished, Unreadable
from turnstone.adapters.models.prompted.literals import read_key, read_value

HOW = (
    "To call functions, answer with a JSON object for each call, one a line, and write nothing else:\n"
    '{"type": "function", "name": "NAME", "parameters": {"PARAMETER": VALUE}}'
)
NAME_KEYS = ("name", "function", "tool_name", "tool")
ARGUMENT_KEYS = ("parameters", "arguments", "args", "input")
OTHER_KEYS = ("type", "id", "description")
KEYS = frozenset((*NAME_KEYS, *ARGUMENT_KEYS, *OTHER_KEYS))


def written(calls: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Return the calls, given by name and arguments, in this format."""
    objects = ({"type": "function", "name": name, "parameters": arguments} for name, arguments in calls)
    return "\n".join(json.dumps(call, ensure_ascii=False) for call in objects)


def read(cursor: Cursor, names: Names) -> tuple[WrittenCall, ...]:
    """Return the calls that begin here: one object, or a list. Raises Unfinished, Unreadable."""
    if not cursor.take("["):
        return (_call(cursor, names),)
    calls: list[WrittenCall] = []
    while True:
        cursor.skip_spaces()
        calls.append(_call(cursor, names))
        if calls[-1].arguments is None:
            break
        cursor.skip_spaces()
        if not cursor.take(","):
            cursor.take("]")
            break
    return tuple(calls)


def _call(cursor: Cursor, names: Names) -> WrittenCall:
    cursor.expect("{")
    members: dict[str, Any] = {}
    while True:
        cursor.skip_spaces()
        if members and (cursor.take("}") or cursor.is_ended_by_model):
            break
        key = read_key(cursor)
        if not members and key not in KEYS:
            raise Unreadable
        value_at = cursor.position
        try:
            members[key] = read_value(cursor)
        except Unreadable:
            return names.failed(cursor, WrittenCall(_name_in(members), None), value_at)
        if name := _name_in(members):
            names.check(name)
        cursor.skip_spaces()
        if not cursor.take(","):
            _close(cursor, members)
            break
    return _call_in(members, names)


def _close(cursor: Cursor, members: Mapping[str, Any]) -> None:
    """Consume the closing brace. Raises Unreadable if it is missing within an incomplete call."""
    is_complete = bool(_name_in(members)) and any(key in members for key in ARGUMENT_KEYS)
    if not (cursor.take("}") or is_complete or cursor.is_ended_by_model):
        raise Unreadable


def _name_in(members: Mapping[str, Any]) -> str:
    """Return the name, empty if the members have none."""
    return next((members[key] for key in NAME_KEYS if isinstance(members.get(key), str)), "")


def _call_in(members: Mapping[str, Any], names: Names) -> WrittenCall:
    """Return the members' call. Raises Unreadable if they form none."""
    nested = members.get("function")
    if isinstance(nested, dict):
        members = nested
    name = _name_in(members)
    names.check(name)
    key = next((key for key in ARGUMENT_KEYS if members.get(key) is not None), None)
    if key is None:
        has_other_keys = any(other not in KEYS for other in members)
        if has_other_keys or name not in names.offered:
            raise Unreadable
        return WrittenCall(name, {})
    return WrittenCall(name, _arguments_of(members[key]))


def _arguments_of(value: Any) -> Mapping[str, Any] | str:
    """Return the arguments, an object or one in a string; a text for anything else."""
    if isinstance(value, dict):
        return value
    if value == []:
        return {}
    if not isinstance(value, str):
        return json.dumps(value)
    cursor = Cursor(value, ending="whole")
    try:
        inner = read_value(cursor)
        cursor.skip_spaces()
    except (Unreadable, Unfinished):
        return value
    return inner if isinstance(inner, dict) and cursor.is_over else value
