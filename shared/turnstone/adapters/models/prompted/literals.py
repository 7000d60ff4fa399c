"""Parse values as models write them: JSON, Python's literals, and mixtures of both. Nothing is ever executed.

Python's own parser is not used: its warnings on standard error quote the model's text, and its maximum depth
depends on the C stack.
"""

import json
import math
import re
from typing import Any

from turnstone.adapters.models.prompted.cursor import Cursor, Unfinished, Unreadable
from turnstone.domain.values.frozen import MAX_DEPTH, is_too_deep

CONSTANTS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
QUOTES = ('"""', "'''", '"', "'")
STRING_ENDS = {
    '"': re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL),
    "'": re.compile(r"[^'\\]*+(?:\\.[^'\\]*+)*+'", re.DOTALL),
    '"""': re.compile(r'(?:[^"\\]++|\\.|"(?!""))*+"""', re.DOTALL),
    "'''": re.compile(r"(?:[^'\\]++|\\.|'(?!''))*+'''", re.DOTALL),
}
IDENTIFIER = re.compile(r"[A-Za-z_$][\w$-]*")
WORD = re.compile(r"[\w.+-]*")
INTEGER = re.compile(r"[+-]?[0-9]+")
DECIMAL = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|U000[0-9a-fA-F]{5}|.)", re.DOTALL)
ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v", "0": "\0", "\n": ""}
ITSELF = "\\\"'/"
LAST_CHARACTER = 0x10FFFF
FAILED_STEPS = 5


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def _refused(constant: str) -> float:
    raise ValueError(constant)


SCANNER = json.JSONDecoder(parse_float=_finite, parse_constant=_refused, strict=False)


def read_value(cursor: Cursor, levels: int = MAX_DEPTH + 1) -> Any:
    """Return the value at the cursor: list, object, string, number, boolean or None.

    Accepts commas before a closing bracket, and open brackets where the model stopped.

    Raises:
        Unfinished: more of the value may come.
        Unreadable: no value, or nested too deep.
    """
    cursor.effort.spend()
    if levels == 0:
        raise Unreadable
    cursor.skip_spaces()
    if levels > MAX_DEPTH and cursor.text.startswith(("{", "["), cursor.position):
        try:
            return _json(cursor)
        except (ValueError, RecursionError):
            cursor.effort.spend(FAILED_STEPS)
    if cursor.take("{"):
        return _members(cursor, levels - 1)
    if cursor.take("["):
        return _items(cursor, "]", levels - 1)
    if cursor.take("("):
        return _items(cursor, ")", levels - 1)
    quote = cursor.take_any(QUOTES)
    return _string(cursor, quote) if quote else _word(cursor)


def _json(cursor: Cursor) -> Any:
    """Return the whole list or object here, if it is valid JSON: the common case, and the fastest parser.

    Raises:
        ValueError, RecursionError: not JSON, or this module's parser would give another result.
    """
    value, end = SCANNER.raw_decode(cursor.text, cursor.position)
    if is_too_deep(value) or cursor.text.find("\\u", cursor.position, end) >= 0:
        raise ValueError
    cursor.position = end
    return value


def read_key(cursor: Cursor) -> str:
    """Return an object's key, quoted or not, and consume its colon. Raises Unfinished, Unreadable."""
    quote = cursor.take_any(QUOTES)
    key = _string(cursor, quote) if quote else cursor.take_match(IDENTIFIER)
    cursor.skip_spaces()
    cursor.expect(":")
    return key


def closes(cursor: Cursor, bracket: str) -> bool:
    """Return whether the bracket is here, with or without a comma before it; consume up to the next element.

    Raises:
        Unreadable: the bracket is missing, and no comma separates a next element.
    """
    cursor.skip_spaces()
    if cursor.take(bracket) or cursor.is_ended_by_model:
        return True
    cursor.expect(",")
    cursor.skip_spaces()
    return cursor.take(bracket) or cursor.is_ended_by_model


def _members(cursor: Cursor, levels: int) -> dict[str, Any]:
    members: dict[str, Any] = {}
    cursor.skip_spaces()
    is_closed = cursor.take("}")
    while not is_closed:
        key = read_key(cursor)
        members[key] = read_value(cursor, levels)
        is_closed = closes(cursor, "}")
    return members


def _items(cursor: Cursor, bracket: str, levels: int) -> list[Any]:
    items: list[Any] = []
    cursor.skip_spaces()
    is_closed = cursor.take(bracket)
    while not is_closed:
        items.append(read_value(cursor, levels))
        is_closed = closes(cursor, bracket)
    return items


def _string(cursor: Cursor, quote: str) -> str:
    """Return the string after its opening quote."""
    match = STRING_ENDS[quote].match(cursor.text, cursor.position)
    if match is None:
        raise Unfinished if cursor.ending == "open" else Unreadable
    cursor.position = match.end()
    return _decoded(match[0].removesuffix(quote), quote)


def _decoded(body: str, quote: str) -> str:
    """Return the decoded string; unrecognised escapes stay unchanged."""
    if "\\" not in body:
        return body
    try:
        decoded = json.loads(f'"{body}"', strict=False) if quote == '"' else ESCAPE.sub(_unescaped, body)
    except ValueError:
        decoded = ESCAPE.sub(_unescaped, body)
    return str(decoded).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _unescaped(match: re.Match[str]) -> str:
    escape = match[1]
    if len(escape) == 1:
        return escape if escape in ITSELF else ESCAPED.get(escape, match[0])
    code = int(escape[1:], 16)
    return chr(code) if code <= LAST_CHARACTER else match[0]


def _word(cursor: Cursor) -> Any:
    word = cursor.take_match(WORD)
    if word in CONSTANTS:
        return CONSTANTS[word]
    try:
        if INTEGER.fullmatch(word):
            return int(word)
        if DECIMAL.fullmatch(word) and math.isfinite(number := float(word)):
            return number
    except ValueError as exc:
        raise Unreadable from exc
    raise Unreadable
