"""Several providers of embeddings as one.

Covers: adapters/outgoing/breaker, adapters/models/routed_embeddings, bootstrap/embeddings
"""

from __future__ import annotations

import pytest

from turnstone.adapters.models.routed_embeddings import RoutedEmbeddings
from turnstone.adapters.outgoing.breaker import FAILURES
from turnstone.domain.errors import ModelError, ModelFailed, StoreUnavailable
from turnstone.domain.models.requests import Embedded, EmbeddingRequest
from turnstone.domain.models.routing import Target
from turnstone.ports.models import Embeddings

AWAY = ModelFailed("away", is_outage=True)
A, B = Target("a", "x"), Target("b", "y")
VECTORS = Embedded(((1.0,),), 3)


class Scripted:
    def __init__(self, *answers: Embedded | ModelError) -> None:
        self._answers = list(answers)
        self.requested: list[str] = []

    def embed(self, request: EmbeddingRequest) -> Embedded:
        self.requested.append(request.model)
        answer = self._answers.pop(0)
        if isinstance(answer, ModelError):
            raise answer
        return answer


def routed(**providers: Embeddings) -> RoutedEmbeddings:
    return RoutedEmbeddings({name: lambda made=provider: made for name, provider in providers.items()}, "a")


def test_texts_go_to_the_first_target_that_answers_under_its_own_name() -> None:
    a, b = Scripted(AWAY), Scripted(VECTORS)
    assert routed(a=a, b=b).embed(EmbeddingRequest("m", ("t",), targets=(A, B))) == VECTORS
    assert (a.requested, b.requested) == (["x"], ["y"])


def test_without_targets_the_default_is_requested() -> None:
    a = Scripted(VECTORS)
    routed(a=a).embed(EmbeddingRequest("m", ("t",)))
    assert a.requested == ["m"]


def test_the_error_of_the_last_target_is_raised() -> None:
    with pytest.raises(ModelFailed, match="no such model"):
        routed(a=Scripted(AWAY), b=Scripted(ModelFailed("no such model"))).embed(
            EmbeddingRequest("m", ("t",), targets=(A, B))
        )


def test_a_target_that_fails_repeatedly_is_skipped() -> None:
    a, b = Scripted(*[AWAY] * 10), Scripted(*[VECTORS] * 10)
    both = routed(a=a, b=b)
    for _ in range(FAILURES + 2):
        both.embed(EmbeddingRequest("m", ("t",), targets=(A, B)))
    assert (len(a.requested), len(b.requested)) == (FAILURES, FAILURES + 2)


def test_a_missing_provider_or_one_that_cant_be_made_is_a_models_failure() -> None:
    def unmade() -> Embeddings:
        raise StoreUnavailable("no secrets now")

    with pytest.raises(ModelFailed, match="no provider 'b'"):
        routed(a=Scripted()).embed(EmbeddingRequest("m", ("t",), targets=(B,)))
    with pytest.raises(ModelFailed, match="no secrets now"):
        RoutedEmbeddings({"a": unmade}, "a").embed(EmbeddingRequest("m", ("t",)))
