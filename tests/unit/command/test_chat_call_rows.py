"""Calls as rows of a terminal: complete, and without characters that imitate others.

Covers: functions/command/chat/call_rows
"""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.command.chat.call_rows import FIRST_ROW, FURTHER_ROW, call_rows, plain_json, plain_name

TEXTS = st.text(st.characters(codec=None)) | st.text("aа \n\u200b\u202e\u0301\x1b|·", max_size=200)
VALUES = st.recursive(st.none() | st.booleans() | st.integers() | TEXTS, lambda inner: st.lists(inner, max_size=3))


def rows_of(arguments: Any, columns: int = 80, name: str = "run") -> list[str]:
    return call_rows({"call_id": "c", "tool_name": name, "arguments": arguments}, columns)


def cells_of(row: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WFA" and not char.isascii() else 1 for char in row)


@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4), st.integers(40, 200))
def test_the_rows_show_the_arguments(arguments: dict[str, Any], columns: int) -> None:
    head, *rows = rows_of(arguments, columns)
    fields: list[str] = []
    for row in rows:
        assert cells_of(row) < columns
        if row.startswith(FURTHER_ROW):
            fields[-1] += row.removeprefix(FURTHER_ROW)
        else:
            assert row.startswith(f'{FIRST_ROW}"')
            fields.append(row.removeprefix(FIRST_ROW))
    assert head == "· tool run"
    assert {k: v for field in fields for k, v in json.loads(f"{{{field}}}").items()} == arguments


@given(TEXTS)
def test_each_character_is_printable_and_on_one_line(text: str) -> None:
    shown = plain_json(text)
    assert shown.isprintable()
    assert json.loads(shown) == text


@pytest.mark.parametrize("text", ["Zürich", "Łódź", "東京 12", "Москва", "שלום", "नमस्ते", "nguyễn", "👩", "a  b"])
def test_words_of_every_language_stay_as_they_are(text: str) -> None:
    assert plain_name(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "\u0430dmin",
        "g\u043eogle.com",
        "\uff0fetc/x",
        "\u2010rf",
        "a\u0301",
        "\u0131d",
        "x\u200dy",
        "\u3164",
        "\u2800",
        "\xa0",
        "\ufe0f",
        "\x7f",
        "\x9b",
        "\ud800",
        "\U000e0041",
        "\u2028",
        '"\u0338',
        "\u0e01\u0e34\u0e34\u0e34",
        "\u20dd",
    ],
)
def test_a_character_that_imitates_another_is_escaped(text: str) -> None:
    shown = plain_name(text)
    assert shown != text
    assert "\\u" in shown
    assert json.loads(f'"{shown}"') == text


def test_no_arguments_and_arguments_that_are_no_object_are_shown() -> None:
    assert rows_of({})[1:] == ["  | no arguments"]
    assert rows_of("{no json\n")[1:] == ['  | "{no json\\n"']


def test_a_name_can_not_begin_another_row() -> None:
    assert rows_of({}, name="a\n  | b")[0] == "· tool a\\n  | b"
