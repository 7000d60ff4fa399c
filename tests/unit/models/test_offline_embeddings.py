"""The embeddings of a server without a model: always the same, of unit length, near where words are shared.

Covers: adapters/models/offline/offline_embeddings
"""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstone.adapters.models.offline.offline_embeddings import DIMENSIONS, OfflineEmbeddings, hashed_vector
from turnstone.domain.models.requests import EmbeddingRequest


def likeness(one: str, other: str) -> float:
    return sum(a * b for a, b in zip(hashed_vector(one), hashed_vector(other), strict=True))


@given(st.text())
def test_every_text_has_a_vector_of_unit_length(text: str) -> None:
    vector = hashed_vector(text)
    assert len(vector) == DIMENSIONS
    assert math.isclose(math.hypot(*vector), 1.0)


def test_a_vector_is_the_same_on_every_machine() -> None:
    components = {index: round(value, 6) for index, value in enumerate(hashed_vector("Rain in Oslo, rain")) if value}
    assert components == {95: -0.767495, 240: 0.453295, 250: -0.453295}


def test_texts_that_share_words_are_nearer_than_those_that_share_none() -> None:
    assert likeness("the weather in Oslo", "Weather of oslo") > 0.4
    assert likeness("the weather in Oslo", "a ship has sailed") == pytest.approx(0.0)


def test_vectors_are_in_the_order_of_the_texts_and_tokens_are_estimated() -> None:
    embedded = OfflineEmbeddings().embed(EmbeddingRequest("any", ("one", "two words", ""), dimensions=5))
    assert embedded.vectors == tuple(map(hashed_vector, ("one", "two words", "")))
    assert embedded.tokens == 1 + 2 + 1
