"""Marks of citations leave the text, wherever deltas cut them, and the positions of their statements are true.

Covers: domain/tools/citations, domain/tools/cited_results
"""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstone.domain.tools.citations import CitationReader, Cited, mark_of, numbers_in
from turnstone.domain.tools.cited_results import CitedResult, numbered_from, results_in, written_results
from turnstone.domain.values.content import TextItem, text_of

LETTERS = ["a", " ", ". ", "\n", "é", "e\u0301", "😀", "👩‍🔬", "【", "】", "【x】", "【】", "1", ",", "。"]
PLAIN = st.lists(st.sampled_from(LETTERS), max_size=8).map("".join)
MARKS = st.lists(st.integers(0, 999), min_size=1, max_size=3).map(lambda numbers: f"【{', '.join(map(str, numbers))}】")


def read(*parts: str) -> tuple[str, list[Cited], list[str]]:
    """Return the text, the citations and the text's pieces."""
    reader = CitationReader()
    pieces = [piece for part in parts for piece in reader.fed(part)]
    pieces.append(reader.rest())
    texts = [piece for piece in pieces if isinstance(piece, str)]
    assert reader.text == "".join(texts)
    return reader.text, [piece for piece in pieces if isinstance(piece, Cited)], texts


@given(st.lists(st.one_of(PLAIN, MARKS), max_size=8).map("".join), st.data())
def test_any_cuts_give_the_same_text_and_citations(text: str, data: st.DataObject) -> None:
    bounds = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    parts = [text[begin:end] for begin, end in pairwise([0, *bounds, len(text)])]
    assert read(*parts)[:2] == read(text)[:2] == read(*text)[:2]


@given(st.lists(st.one_of(PLAIN, MARKS), max_size=8).map("".join))
def test_no_mark_is_left_and_nothing_else_is_lost(text: str) -> None:
    shown, cited, _ = read(text)
    pattern = re.compile(r"【([0-9,、 ]{0,63})】")
    marks = [found for found in pattern.finditer(text) if numbers_in(found[1])]
    expected, at = "", 0
    ends = []
    for found in marks:
        expected += text[at : found.start()]
        ends += [len(expected)] * len(numbers_in(found[1]))
        at = found.end()
    assert shown == expected + text[at:]
    assert [each.end for each in cited] == ends
    assert [each.number for each in cited] == [number for found in marks for number in numbers_in(found[1])]
    assert all(0 <= each.start <= each.end <= len(shown) for each in cited)


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("Terns breed. They eat fish【1】. Knots winter【2】.", ["They eat fish", "Knots winter"]),
        ("The 👩‍🔬 said e\u0301te\u0301 😀【3】!", ["The 👩‍🔬 said e\u0301te\u0301 😀"]),
        ("It is so.【1】【2】 And so.【1】", ["It is so.", "It is so.", "And so."]),
        ("鳥。魚【1, 2】", ["魚", "魚"]),
        ("【1】", [""]),
    ],
)
def test_the_statement_before_a_mark_is_what_it_cites(text: str, statements: list[str]) -> None:
    shown, cited, _ = read(*text)
    assert [shown[each.start : each.end].lstrip(". ") for each in cited] == statements


def test_only_what_may_become_a_mark_is_held_back() -> None:
    reader = CitationReader()
    assert list(reader.fed("Yes【1")) == ["Yes"]
    assert list(reader.fed("2】.")) == [Cited(12, 0, 3), "."]
    assert list(reader.fed("【note】")) == ["【", "note】"]
    assert list(reader.fed("【1")) == []
    assert reader.rest() == "【1"
    assert "".join(map(str, reader.fed("【" + "1 " * 40))).startswith("【1 1")


@given(
    st.lists(st.tuples(st.text(), st.dictionaries(st.text(), st.one_of(st.text(), st.booleans()), max_size=3))),
    st.integers(0, 5),
)
def test_results_are_read_as_they_were_written(found: list[tuple[str, dict[str, object]]], position: int) -> None:
    results = [CitedResult(numbered_from(position) + at, about, text) for at, (text, about) in enumerate(found)]
    content = written_results("file_search", results)
    assert results_in(content) == results
    assert all(mark_of(result.number) in text_of(content) for result in results)


def test_a_result_that_was_cut_within_its_head_is_no_source() -> None:
    content = written_results("file_search", [CitedResult(1, {"file_id": "a"}, "x"), CitedResult(2, {}, "y")])
    assert isinstance(content, tuple)
    header, first, *_ = content
    assert isinstance(first, TextItem)
    cut = (header, TextItem(text=first.text[:9]), TextItem(text="[This answer was cut]"))
    assert results_in(cut) == []
    assert results_in("【1】 {}") == []
