"""Ranking of found chunks.

Covers: domain/memory/ranking
"""

import pytest

from turnstone.domain.memory.questions import ReciprocalRank, Weighted
from turnstone.domain.memory.ranking import Scored, ranked

FOUND = [Scored("b", 4.0, 0.2), Scored("a", 2.0, 0.8), Scored("c", 0.0, 0.4), Scored("d", 0.0, -0.5)]


def _ids(order: list[tuple[float, int]]) -> str:
    return "".join(FOUND[index].chunk_id for _, index in order)


def test_one_half_alone() -> None:
    assert ranked(FOUND, "vector", Weighted(), None) == [(0.8, 1), (0.4, 2), (0.2, 0)]
    assert ranked(FOUND, "keyword", Weighted(), None) == [(1.0, 0), (0.5, 1)]


@pytest.mark.parametrize(("alpha", "order"), [(0.0, "ba"), (0.1, "bac"), (0.9, "acb"), (1.0, "acb")])
def test_the_weight_moves_between_keywords_and_vectors(alpha: float, order: str) -> None:
    assert _ids(ranked(FOUND, "hybrid", Weighted(alpha), None)) == order


def test_reciprocal_ranks() -> None:
    order = ranked(FOUND, "hybrid", ReciprocalRank(1.0), None)
    assert _ids(order) == "abc"
    assert order[0][0] == pytest.approx((1 / 3 + 1 / 2) / 1.0)


def test_scores_are_in_bounds_and_ties_are_in_the_order_of_ids() -> None:
    same = [Scored("z", 1.0, 0.5), Scored("y", 1.0, 0.5)]
    for ranker in (Weighted(), ReciprocalRank()):
        order = ranked(same, "hybrid", ranker, "any")
        assert [same[index].chunk_id for _, index in order] == ["y", "z"]
        assert all(0 < score <= 1 for score, _ in order)
    assert ranked([], "hybrid", Weighted(), None) == []
