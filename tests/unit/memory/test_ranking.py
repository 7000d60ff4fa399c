"""Ranking of found chunks.

Covers: domain/memory/ranking
"""

import pytest

from turnstone.domain.memory.questions import ReciprocalRank, Weighted
from turnstone.domain.memory.ranking import DEFAULT_WEIGHT, MOST, WEIGHTS, Scored, ranked, share_of_vectors

FOUND = [Scored("b", 4.0, 0.2), Scored("a", 2.0, 0.8), Scored("c", 0.0, 0.4), Scored("d", 0.0, -0.5)]


def _ids(order: list[tuple[float, int]]) -> str:
    return "".join(FOUND[index].chunk_id for _, index in order)


def test_one_half_alone() -> None:
    assert ranked(FOUND, "vector", Weighted(), 0.5) == [(0.8, 1), (0.4, 2), (0.2, 0)]
    assert ranked(FOUND, "keyword", Weighted(), 0.5) == [(1.0, 0), (0.5, 1)]


@pytest.mark.parametrize(("alpha", "order"), [(0.0, "ba"), (0.1, "bac"), (0.9, "acb"), (1.0, "acb")])
def test_the_weight_moves_between_keywords_and_vectors(alpha: float, order: str) -> None:
    assert _ids(ranked(FOUND, "hybrid", Weighted(alpha), 0.5)) == order


def test_reciprocal_ranks() -> None:
    order = ranked(FOUND, "hybrid", ReciprocalRank(1.0), 0.5)
    assert _ids(order) == "abc"
    assert order[0][0] == pytest.approx((1 / 3 + 1 / 2) / 1.0)


def test_scores_are_in_bounds_and_ties_are_in_the_order_of_ids() -> None:
    same = [Scored("z", 1.0, 0.5), Scored("y", 1.0, 0.5)]
    for ranker in (Weighted(), ReciprocalRank()):
        order = ranked(same, "hybrid", ranker, 0.5)
        assert [same[index].chunk_id for _, index in order] == ["y", "z"]
        assert all(0 < score <= 1 for score, _ in order)
    assert ranked([], "hybrid", Weighted(), 0.5) == []


@pytest.mark.parametrize("model", WEIGHTS)
def test_the_share_of_vectors_falls_with_the_tokens_that_a_word_takes(model: str) -> None:
    shares = [share_of_vectors(model, "one two three four", tokens, 0.0) for tokens in (4, 5, 6, 8, 12, 40)]
    assert shares[0] == shares[1] == MOST
    assert shares[1:] == sorted(set(shares), reverse=True)
    assert shares[3] == pytest.approx(MOST * (1.4 / 2) ** 3)


@pytest.mark.parametrize("model", WEIGHTS)
def test_the_share_of_vectors_falls_with_the_part_of_the_question_that_keywords_cover(model: str) -> None:
    shares = [share_of_vectors(model, "one", None, coverage / 10) for coverage in range(11)]
    assert shares == sorted(shares, reverse=True)
    assert (shares[0], shares[10]) == (MOST, 0)
    assert shares[5] == pytest.approx(WEIGHTS[model] / 4)


def test_the_share_of_vectors_is_that_of_the_model_where_tokens_or_words_are_unknown() -> None:
    assert share_of_vectors("static", "one", None, 0.0) == share_of_vectors("static", "!?", 2, 0.0) == MOST
    another = share_of_vectors("another", "one", 9, 0.9)
    assert another == share_of_vectors(None, "one", None, 0.0) == DEFAULT_WEIGHT


def test_the_weight_of_a_question_precedes_the_share_of_its_model() -> None:
    assert _ids(ranked(FOUND, "hybrid", Weighted(0.0), 1.0)) == "ba"
    assert _ids(ranked(FOUND, "hybrid", Weighted(), 1.0)) == "acb"
