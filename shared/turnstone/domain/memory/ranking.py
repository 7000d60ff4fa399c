"""Ranking of found chunks: by keywords, by vectors, or both fused into one score in (0, 1]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from turnstone.domain.memory.questions import Ranker, ReciprocalRank, SearchMode

DEFAULT_WEIGHT = 0.5
# Share of vectors in a weighted fusion, by embedding model: the best of the odd questions of the quality tests.
WEIGHTS: Mapping[str, float] = MappingProxyType({})


class Scored(NamedTuple):
    """A chunk with the scores of either half of the search; 0 where that half did not find it."""

    chunk_id: str
    keyword: float
    vector: float


def ranked(found: Sequence[Scored], mode: SearchMode, ranker: Ranker, model: str | None) -> list[tuple[float, int]]:
    """Return score and index of each found chunk, the best first; ties are in the order of ids.

    Scores by keywords are divided by their maximum, and those by vectors are cosines, below 0 left out.
    """
    scores = _scores(found, mode, ranker, model)
    kept = [(score, index) for index, score in enumerate(scores) if score > 0]
    return sorted(kept, key=lambda each: (-each[0], found[each[1]].chunk_id))


def _scores(found: Sequence[Scored], mode: SearchMode, ranker: Ranker, model: str | None) -> list[float]:
    keywords = [max(each.keyword, 0.0) for each in found]
    vectors = [min(max(each.vector, 0.0), 1.0) for each in found]
    if mode == "vector":
        return vectors
    keywords = _by_maximum(keywords)
    if mode == "keyword":
        return keywords
    if isinstance(ranker, ReciprocalRank):
        of_both = zip(_reciprocal(found, keywords, ranker.k), _reciprocal(found, vectors, ranker.k), strict=True)
        best = 2 / (ranker.k + 1)
        return [(one + other) / best for one, other in of_both]
    weight = WEIGHTS.get(model or "", DEFAULT_WEIGHT) if ranker.alpha is None else ranker.alpha
    vectors = _by_maximum(vectors)
    return [weight * vector + (1 - weight) * keyword for vector, keyword in zip(vectors, keywords, strict=True)]


def _by_maximum(scores: list[float]) -> list[float]:
    most = max(scores, default=0.0)
    return [score / most for score in scores] if most > 0 else scores


def _reciprocal(found: Sequence[Scored], scores: list[float], k: float) -> list[float]:
    order = sorted(
        (index for index, score in enumerate(scores) if score > 0),
        key=lambda index: (-scores[index], found[index].chunk_id),
    )
    reciprocal = [0.0] * len(found)
    for rank, index in enumerate(order, start=1):
        reciprocal[index] = 1 / (k + rank)
    return reciprocal
