"""A plain BM25 over whole words, by the library bm25s: what a search has to be better than."""

from __future__ import annotations

import math
from collections.abc import Sequence

import bm25s

from tests.support.retrieval.collections import Collection
from tests.support.retrieval.quality import BEST
from turnstone.domain.memory.banks import Chunking
from turnstone.domain.memory.chunking import chunks_of
from turnstone.services.memory.searching import CANDIDATES


def plain_bm25(collection: Collection) -> tuple[float, float]:
    """Return nDCG@10 over whole documents, and over chunks, of which a document's best one counts."""
    whole = list(enumerate(collection.documents))
    chunks = [(number, cut.text) for number, document in whole for cut in chunks_of(document, Chunking())]
    return _ndcg(collection.questions, whole), _ndcg(collection.questions, chunks)


def _ndcg(questions: Sequence[str], texts: Sequence[tuple[int, str]]) -> float:
    def words(some: Sequence[str]) -> bm25s.tokenization.Tokenized:
        return bm25s.tokenize(list(some), stopwords=None, show_progress=False)

    index = bm25s.BM25()
    index.index(words([text for _, text in texts]), show_progress=False)
    ranked, _ = index.retrieve(words(questions), k=min(CANDIDATES, len(texts)), show_progress=False)
    gains = []
    for answer, row in enumerate(ranked):
        best = list(dict.fromkeys(texts[int(at)][0] for at in row))[:BEST]
        gains.append(1 / math.log2(best.index(answer) + 2) if answer in best else 0.0)
    return math.fsum(gains) / len(gains)
