"""Ranking of found chunks: by keywords, by vectors, or both fused into one score in (0, 1]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from turnstone.domain.memory.questions import Ranker, ReciprocalRank, SearchMode
from turnstone.domain.memory.terms import count_words

DEFAULT_WEIGHT = 0.5
# Share of vectors in a weighted fusion, by embedding model, before what `share_of_vectors` subtracts.
WEIGHTS: Mapping[str, float] = MappingProxyType({"static": 1.0, "minilm": 2.0})
MOST = 0.9
FLUENT = 1.4  # tokens for a word


class Scored(NamedTuple):
    """A chunk with the scores of either half of the search, as of a `SegmentHit`."""

    chunk_id: str
    keyword: float
    vector: float


def share_of_vectors(model: str | None, text: str, tokens: int | None, coverage: float) -> float:
    """Return the share of vectors in a weighted fusion, if the question does not set it, from 0 to 1.

    It falls with the part of the question that the best chunk by keywords covers: less is left for vectors to find. And
    it falls with the tokens that a word takes: rare words, codes and foreign languages have poor vectors.

    Args:
        tokens: the number of the text's tokens by the model, None if it does not count them.
        coverage: the best score by keywords.
    """
    weight = WEIGHTS.get(model or "")
    if weight is None:
        return DEFAULT_WEIGHT
    words = count_words(text)
    fluency = min(1.0, FLUENT * words / tokens) if tokens and words else 1.0
    return min(MOST, weight * (1 - coverage) ** 2) * fluency**3


def ranked(found: Sequence[Scored], mode: SearchMode, ranker: Ranker, share: float) -> list[tuple[float, int]]:
    """Return score and index of each found chunk, the best first; ties are in the order of ids.

    Scores by keywords are divided by their maximum, and those by vectors are cosines, below 0 left out.

    Args:
        share: that of vectors in a weighted fusion, if the ranker does not set it.
    """
    scores = _scores(found, mode, ranker, share)
    kept = [(score, index) for index, score in enumerate(scores) if score > 0]
    return sorted(kept, key=lambda each: (-each[0], found[each[1]].chunk_id))


def _scores(found: Sequence[Scored], mode: SearchMode, ranker: Ranker, share: float) -> list[float]:
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
    weight = share if ranker.alpha is None else ranker.alpha
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
