"""Texts and filters in SQL: texts that Postgres can't store are written in another form, in the same order.

Postgres stores neither the character NUL nor halves of surrogate pairs.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from turnstone.domain.memory.filters import Compound, Filter

# One character becomes two, which sort where it did: the first is a character of the text's own order, too.
LOW, HIGH = "\x01", "\ue000"
_FORBIDDEN = re.compile("[\x00\x01\ud800-\udfff\ue000]")
_WRITTEN = re.compile(f"{LOW}[\x02\x03]|{HIGH}[\u0100-\u08ff\uffff]")
_SURROGATE, _SHIFTED, _ITSELF = 0xD800, 0x0100, "\uffff"
ORDERS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


class SqlCondition(NamedTuple):
    """A condition of SQL, with the values of its parameters `%s`."""

    text: str
    parameters: tuple[Any, ...]


def stored_text(text: str) -> str:
    """Return the text without characters that Postgres lacks; different texts differ, and keep their order."""
    return _FORBIDDEN.sub(_as_two, text)


def read_text(stored: str) -> str:
    """Return the text that `stored_text` was given."""
    return _WRITTEN.sub(_as_one, stored)


def stored_values(values: Mapping[str, Any]) -> str:
    """Return the JSON of the values that filters can compare."""
    return json.dumps({stored_text(name): _comparable(value) for name, value in values.items() if _is_finite(value)})


def condition_of(filters: Filter) -> SqlCondition:
    """Return the condition on the column `filters`, an object as `stored_values` returns it."""
    if isinstance(filters, Compound):
        parts = [condition_of(each) for each in filters.filters]
        joined = " AND " if filters.type == "and" else " OR "
        parameters = tuple(value for part in parts for value in part.parameters)
        return SqlCondition(f"({joined.join(part.text for part in parts)})", parameters)
    key, value = stored_text(filters.key), filters.value
    match filters.type:
        case "eq" | "in":
            return SqlCondition("coalesce(filters -> %s = ANY(%s::jsonb[]), false)", (key, _alternatives(value)))
        case "ne" | "nin":
            return SqlCondition("coalesce(filters -> %s <> ALL(%s::jsonb[]), true)", (key, _alternatives(value)))
    order = ORDERS[filters.type]
    if isinstance(value, str):
        ordered, form, limit = f'(filters ->> %s) COLLATE "C" {order} %s', "string", stored_text(value)
    else:
        ordered, form, limit = f"(filters ->> %s)::numeric {order} %s::numeric", "number", repr(value)
    return SqlCondition(
        f"CASE jsonb_typeof(filters -> %s) WHEN '{form}' THEN {ordered} ELSE false END", (key, key, limit)
    )


def _alternatives(value: Any) -> list[str]:
    values = value if isinstance(value, tuple) else (value,)
    return [json.dumps(_comparable(each)) for each in values if _is_finite(each)]


def _comparable(value: Any) -> Any:
    return stored_text(value) if isinstance(value, str) else value


def _is_finite(value: Any) -> bool:
    """Return whether the value can be compared, and written in JSON."""
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


def _as_two(found: re.Match[str]) -> str:
    character = found[0]
    if character < HIGH and character > LOW:
        return HIGH + chr(ord(character) - _SURROGATE + _SHIFTED)
    return {"\x00": LOW + "\x02", LOW: LOW + "\x03", HIGH: HIGH + _ITSELF}[character]


def _as_one(found: re.Match[str]) -> str:
    first, second = found[0][0], found[0][1]
    if first == LOW:
        return "\x00" if second == "\x02" else LOW
    return HIGH if second == _ITSELF else chr(ord(second) - _SHIFTED + _SURROGATE)
