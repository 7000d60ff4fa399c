"""Texts from memory within a number of tokens.

Covers: domain/memory/excerpts
"""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnstone.domain.memory.chunking import count_tokens
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.domain.memory.excerpts import HEADER, context_of, excerpts_within, titled
from turnstone.domain.memory.questions import Hit

TEXTS = st.lists(st.integers(1, 40).map(lambda words: "knot " * words), max_size=30)
OF_HEADER = count_tokens(HEADER)


def hit(metadata: Mapping[str, Any], attributes: Mapping[str, Any], document_id: str = "chunk-1") -> Hit:
    return Hit(DocumentChunk(document_id, 0, "text", 1, metadata), attributes, 1.0)


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.integers(1, 400))
def test_a_context_has_as_many_whole_texts_as_fit(texts: list[str], limit: int) -> None:
    context = context_of(texts, limit)
    assert count_tokens(context) <= limit
    found = excerpts_within(HEADER, texts, "", limit)
    is_cut = bool(texts) and found.texts[0] != texts[0]
    if is_cut:
        assert count_tokens(context) == limit
    elif len(found.texts) < len(texts):
        assert found.texts == tuple(texts[: len(found.texts)])
        assert count_tokens(context + texts[len(found.texts)]) > limit


@pytest.mark.parametrize("number", [1, 5, 10_000])
def test_a_limit_is_met_to_the_token(number: int) -> None:
    texts = ["knot " * 3] * number
    whole = OF_HEADER + 3 * number
    assert context_of(texts, whole).count("knot") == 3 * number
    fewer = context_of(texts, whole - 1)
    assert fewer.count("knot") == (2 if number == 1 else 3 * (number - 1))
    assert count_tokens(context_of(texts, whole)) == whole


def test_without_texts_there_is_no_context() -> None:
    assert context_of([], 100) == ""


def test_a_text_is_titled_by_the_document_that_its_client_named() -> None:
    assert titled(hit({"document_id": "a"}, {"document_id": "b"})) == "[a]\ntext"
    assert titled(hit({}, {"document_id": "b"})) == "[b]\ntext"
    assert titled(hit({}, {}, "report.pdf")) == "[report.pdf]\ntext"
