"""Convert a written call to the call that its tool accepts. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from turnstone.adapters.models.prompted.calls import WrittenCall
from turnstone.adapters.models.prompted.cursor import Cursor, Unfinished, Unreadable
from turnstone.adapters.models.prompted.literals import read_value
from turnstone.domain.tools.tool_schemas import input_schema_of
from turnstone.domain.tools.tools import ToolCall, ToolDef, call_from_json

TYPES: Mapping[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def call_of(call_id: str, written: WrittenCall, tool: ToolDef | None) -> ToolCall:
    """Return the call; arguments that no tool accepts stay a text."""
    if not isinstance(written.arguments, Mapping):
        return _unparsable(call_id, written.name, (written.arguments or "").strip())
    properties = {} if tool is None else input_schema_of(tool).get("properties", {})
    arguments = _named(written, tuple(properties))
    if arguments is None:
        return _unparsable(call_id, written.name, json.dumps([*written.positional, dict(written.arguments)]))
    fitting = {name: _fitting(value, properties.get(name)) for name, value in arguments.items()}
    return call_from_json(call_id, written.name, json.dumps(fitting))


def _unparsable(call_id: str, tool_name: str, text: str) -> ToolCall:
    return ToolCall(call_id=call_id, tool_name=tool_name, arguments=text, arguments_json=text)


def _named(written: WrittenCall, names: tuple[str, ...]) -> Mapping[str, Any] | None:
    """Return the arguments by name, positional ones in the tool's order; None if there are too many."""
    assert isinstance(written.arguments, Mapping)  # noqa: S101 - as its one caller ensures
    match written.positional:
        case ():
            return written.arguments
        case (dict() as only,) if not written.arguments and set(only) <= set(names):
            return only
    free = [name for name in names if name not in written.arguments]
    if len(free) < len(written.positional):
        return None
    return {**dict(zip(free, written.positional, strict=False)), **written.arguments}


def _fitting(value: Any, schema: object) -> Any:
    """Return a quoted value without its quotes if the tool's parameter is not a string."""
    expected = TYPES.get(str(schema.get("type"))) if isinstance(schema, Mapping) else None
    if expected is None or not isinstance(value, str):
        return value
    cursor = Cursor(value.strip(), ending="cut")
    try:
        unquoted = read_value(cursor)
        is_all = cursor.is_over
    except (Unreadable, Unfinished):
        return value
    is_expected = isinstance(unquoted, expected) and (isinstance(unquoted, bool) == (bool in expected))
    return unquoted if is_all and is_expected else value
