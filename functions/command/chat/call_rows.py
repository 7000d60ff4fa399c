"""A tool call as rows of a terminal, in which no character can pass for another one."""

import json
import re
import unicodedata
from collections.abc import Iterator

from ..wire import Json

FIRST_ROW, FURTHER_ROW = "  | ", "  |   "
NARROWEST_CELLS = 20
MOST_MARKS = 2
LATIN_LETTER = re.compile("[A-Za-z]")
# letters with an accent, or as distinct as one; without the dotless i, the kra and the long s
EUROPEAN = re.compile("[\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u0130\u0132-\u0137\u0139-\u017e\u1e00-\u1eff]")
# fillers, selectors of variants and blanks that Python takes for printable
UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U0001d159\U000e0100-\U000e01ef]"
)


def plain_json(value: object) -> str:
    """Return the value as JSON on one line, with escapes for characters that could mislead.

    Escaped are characters that a terminal interprets or does not show, white space other than the space, piles of
    accents, and, in a word with Latin letters, characters of other alphabets.
    """
    return re.sub("[^ ]+", lambda word: "".join(_plain(word[0])), json.dumps(value, ensure_ascii=False))


def plain_name(name: str) -> str:
    """Return the name on one line, with escapes as in `plain_json`."""
    return plain_json(name)[1:-1]


def call_rows(call: Json, columns: int) -> list[str]:
    """Return rows that show the whole call on a terminal of that many columns.

    Rows of arguments begin with a bar, and none is wider than the terminal, so no argument can pass for another row.
    """
    arguments = call["arguments"]
    fields = [plain_json(arguments)]
    if isinstance(arguments, dict):
        fields = [f"{plain_json(name)}: {plain_json(value)}" for name, value in arguments.items()] or ["no arguments"]
    cells = max(NARROWEST_CELLS, columns - len(FURTHER_ROW) - 1)
    rows = [f"· tool {plain_name(call['tool_name'])}"]
    for field in fields:
        first, *further = _broken(field, cells)
        rows += [f"{FIRST_ROW}{first}", *(f"{FURTHER_ROW}{part}" for part in further)]
    return rows


def _plain(word: str) -> Iterator[str]:
    """Yield the characters of a word, or their escapes."""
    is_latin = LATIN_LETTER.search(word) is not None
    marks, is_on_letter = 0, False
    for char in word:
        is_mark = unicodedata.category(char).startswith("M")
        marks = marks + 1 if is_mark else 0
        is_on_letter = char.isalpha() or (is_mark and is_on_letter)
        if is_mark and (marks > MOST_MARKS or not is_on_letter):
            yield _escape(char)
        else:
            yield char if _is_plain(char, is_latin=is_latin) else _escape(char)


def _is_plain(char: str, *, is_latin: bool) -> bool:
    if char.isascii():
        return char.isprintable()
    if not char.isprintable() or UNSEEN.match(char):
        return False
    return not is_latin or EUROPEAN.match(char) is not None


def _escape(char: str) -> str:
    return "\\u007f" if char == "\x7f" else json.dumps(char)[1:-1]


def _broken(text: str, cells: int) -> Iterator[str]:
    """Yield the parts of a text that fit as many cells of a terminal; each character beyond ASCII may take two."""
    begin = used = 0
    for index, char in enumerate(text):
        width = 1 if char.isascii() else 2
        if used + width > cells:
            yield text[begin:index]
            begin, used = index, 0
        used += width
    yield text[begin:]
