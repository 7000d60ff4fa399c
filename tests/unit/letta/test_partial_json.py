"""A JSON object read piece by piece has the same texts and the same compact JSON for any cuts.

Covers: domain/values/partial_json
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import from_json, to_json

from turnstone.domain.values.partial_json import Fragment, PartialObject

THOUGHTS = "inner_thoughts"
TEXTS = st.text(max_size=12)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXTS | st.just(THOUGHTS), VALUES, max_size=5)


def joined(fragments: Iterable[Fragment]) -> dict[str | None, str]:
    texts: dict[str | None, str] = {}
    for member, text in fragments:
        texts[member] = texts.get(member, "") + text
    return texts


def fragments_of(pieces: Iterable[str], *chosen: str) -> list[Fragment]:
    partial = PartialObject(chosen)
    return [fragment for piece in pieces for fragment in partial.feed(piece)]


def cut(text: str, seed: int) -> list[str]:
    random, pieces, at = Random(seed), [], 0
    while at < len(text):
        length = random.randrange(5)
        pieces.append(text[at : at + length])
        at += length
    return pieces


@given(OBJECTS, st.booleans(), st.sampled_from([None, 2]), st.integers(0, 1_000))
def test_fragments_together_are_the_texts_and_the_json(
    value: dict[str, Any], is_ascii: bool, indent: int | None, seed: int
) -> None:
    written = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    others = {name: each for name, each in from_json(written).items() if name != THOUGHTS}
    expected = {None: to_json(others).decode()}
    if isinstance(value.get(THOUGHTS), str) and value[THOUGHTS]:
        expected[THOUGHTS] = value[THOUGHTS]
    for pieces in (list(written), [written], cut(written, seed)):
        assert joined(fragments_of(pieces, THOUGHTS)) == expected


def test_no_fragment_cuts_a_key_an_escape_or_a_pair() -> None:
    written = r'{"a_long_key": "x\n\u00e9\ud83d\ude00\"z", "in": {"deep\u002dkey": [1.50, true]}}'
    assert [text for _, text in fragments_of(list(written))] == [
        *('{"a_long_key":', '"', "x", "\\n", "é", "😀", '\\"', "z", '"', ',"in":'),
        *("{", '"deep-key":', "[", "1.5,", "true]", "}", "}"),
    ]
    assert [text for _, text in fragments_of(list(written), "a_long_key")][:6] == ["x", "\n", "é", "😀", '"', "z"]


def test_a_member_is_chosen_by_its_name_at_the_top_only() -> None:
    written = '{"in":{"said":"no"},"s\\u0061id":"yes","other":["said"]}'
    assert joined(fragments_of([written], "said")) == {None: '{"in":{"said":"no"},"other":["said"]}', "said": "yes"}
    assert joined(fragments_of(list('{"said":{"a":["b"]},"n":1}'), "said")) == {None: '{"n":1}'}


@pytest.mark.parametrize(
    "wrong",
    [
        *('[{"k":"v"}]', '"text"', '{,"k":"v"}', '{"k" "v"}', '{"k":"v",}', '{"k":[1}', '{"k":01,"l":2}'),
        *('{"k":NaN,"l":2}', '{"k":1e999,"l":2}', '{"k":tru,"l":2}', '{"k":"\x01"}', '{"k":"\\x: no escape"}'),
        *('{"k":"\\ud83d: no pair"}', '{"k":"\\ude00\\ud83d, turned"}', '{"k":1}}', '{"k":1}{"l":2}', "{'k':1}"),
    ],
)
def test_nothing_follows_what_no_object_can_have(wrong: str) -> None:
    read = joined(fragments_of([*wrong, ',"after":1}', *',"after":1}'])).get(None, "")
    assert "after" not in read
    assert "l" not in read
    assert read in ("", "{}") or read.startswith('{"k":')
