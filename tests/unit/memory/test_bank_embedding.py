"""Vectors that can't be compared are a failure of their model, which the message names.

Covers: services/memory/embedding
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan

import pytest

from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import ModelFailed
from turnstone.domain.memory.banks import VectorSpace
from turnstone.domain.models.requests import Embedded
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.services.memory.embedding import BankEmbedding

SPACE = VectorSpace(model="a-model", dimension=3)


def made_by(*vectors: Sequence[float]) -> BankEmbedding:
    return BankEmbedding(lambda *_: Embedded(tuple(map(tuple, vectors)), None))


@pytest.mark.parametrize(
    ("vector", "problem"),
    [
        ([0.0, 0.0, 0.0], "a vector of zeros"),
        ([0.1, nan, 0.2], "no finite number"),
        ([0.1, -inf, inf], "no finite number"),
        ([1e19, -1.0, 1.0], "values beyond ±1e\\+18"),
        ([1.0, -1e19, 1.0], "values beyond ±1e\\+18"),
        ([1.0, 2.0], "makes vectors of 2 dimensions, not the 3 of the bank"),
    ],
)
def test_a_vector_that_cannot_be_compared_is_an_error_that_names_the_model(
    vector: Sequence[float], problem: str
) -> None:
    embedding = made_by([1.0, 0.0, 0.0], vector)
    with pytest.raises(ModelFailed, match=f"'a-model'.*{problem}"):
        embedding.vectors(LOCAL_CALLER, SPACE, ["a", "b"], NO_PROVIDER_DATA)
    with pytest.raises(ModelFailed, match=f"'a-model'.*{problem}"):
        made_by(vector).of_question(LOCAL_CALLER, SPACE, "a", NO_PROVIDER_DATA)


@pytest.mark.parametrize("value", [1e300, -1e300])
def test_a_value_beyond_single_precision_is_refused_in_documents_and_questions(value: float) -> None:
    embedding = made_by([value, 1.0, 1.0])
    with pytest.raises(ModelFailed, match=r"'a-model'.*no finite number"):
        embedding.vectors(LOCAL_CALLER, SPACE, ["a"], NO_PROVIDER_DATA)
    with pytest.raises(ModelFailed, match=r"'a-model'.*values beyond"):
        embedding.of_question(LOCAL_CALLER, SPACE, "a", NO_PROVIDER_DATA)


def test_small_and_negative_values_are_vectors() -> None:
    vectors = made_by([-1e-30, 0.0, 0.0]).vectors(LOCAL_CALLER, SPACE, ["a"], NO_PROVIDER_DATA)
    assert len(vectors) == 1
