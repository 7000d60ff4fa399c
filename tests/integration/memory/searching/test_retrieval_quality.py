"""Searches find what answers a question: nDCG@10 on a public set in two languages, and on long documents.

Covers: domain/memory/ranking, adapters/retrieval/segments
"""

from __future__ import annotations

import math

import pytest

from tests.support.retrieval.collections import LANGUAGES, faq, manual
from tests.support.retrieval.plain_bm25 import plain_bm25
from tests.support.retrieval.quality import candidates, even, ndcg, odd
from turnstone.domain.memory.ranking import MOST, WEIGHTS

BARS = {("static", "en"): 0.57, ("static", "sv"): 0.51, ("minilm", "en"): 0.70}
BETTER_HALF = 0.01
MODELS = ["static", pytest.param("minilm", marks=pytest.mark.nightly)]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("model", MODELS)
def test_hybrid_searches_reach_their_bar_and_are_hardly_below_either_half(model: str, language: str) -> None:
    found = candidates(faq(language), model)
    for questions in (even(found), found):
        hybrid = ndcg(questions, model)
        assert hybrid >= BARS.get((model, language), 0)
        assert hybrid >= max(ndcg(questions, model, "keyword"), ndcg(questions, model, "vector")) - BETTER_HALF


@pytest.mark.nightly
@pytest.mark.parametrize("model", MODELS)
def test_the_weight_of_a_model_is_about_the_best_of_the_odd_questions(model: str) -> None:
    halves = [odd(candidates(faq(language), model)) for language in LANGUAGES]

    def mean(weight: float) -> float:
        """Return the mean gain if the model had this weight, relative to its own."""
        shares = [(each, min(MOST, each.share(model) * weight)) for half in halves for each in half]
        return math.fsum(each.gain("hybrid", share) for each, share in shares) / len(shares)

    assert WEIGHTS[model] > 0
    assert mean(1) >= max(mean(weight / 4) for weight in range(9)) - 0.005


@pytest.mark.nightly
def test_hybrid_searches_of_long_documents_are_no_worse_than_keywords_or_plain_bm25() -> None:
    documents = manual()
    found = candidates(documents, "static")
    assert ndcg(found, "static") >= max(ndcg(found, "static", "keyword"), *plain_bm25(documents))
