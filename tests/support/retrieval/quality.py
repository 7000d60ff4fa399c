"""Quality of searches: nDCG@10 of the product's own segments, embedders and ranking over a collection."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

from tests.support.needs import need_embeddings
from tests.support.retrieval.collections import Collection
from turnstone.adapters.embedding.local import LocalEmbeddings
from turnstone.adapters.retrieval.segments import NumpySegments
from turnstone.domain.memory.banks import Chunking
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.domain.memory.questions import SearchMode, Weighted
from turnstone.domain.memory.ranking import Scored, ranked, share_of_vectors
from turnstone.domain.memory.terms import terms_of
from turnstone.domain.memory.texts.chunking import chunks_of
from turnstone.domain.models.requests import EmbeddingRequest
from turnstone.ports.memory import SegmentQuestion
from turnstone.services.memory.searching import CANDIDATES

BEST = 10


class Found(NamedTuple):
    """The candidates of a question.

    Attributes:
        answer: the document that answers it.
        documents: the document of each candidate.
        tokens: the tokens of the question by the embedding model.
    """

    question: str
    answer: str
    scored: list[Scored]
    documents: list[str]
    tokens: int | None

    def share(self, model: str) -> float:
        """Return the product's share of vectors."""
        coverage = max((each.keyword for each in self.scored), default=0.0)
        return share_of_vectors(model, self.question, self.tokens, coverage)

    def gain(self, mode: SearchMode, share: float) -> float:
        """Return the discounted gain of the answer among the ten best documents, from 0 to 1."""
        order = ranked(self.scored, mode, Weighted(), share)
        best = list(dict.fromkeys(self.documents[index] for _, index in order))[:BEST]
        return 1 / math.log2(best.index(self.answer) + 2) if self.answer in best else 0.0


@cache
def candidates(collection: Collection, model: str) -> tuple[Found, ...]:
    """Return the candidates of each question. Skips the test without the model's files."""
    embeddings = LocalEmbeddings(need_embeddings(model), {})
    chunks = []
    for number, document in enumerate(collection.documents):
        texts = tuple(cut.text for cut in chunks_of(document, Chunking()))
        vectors = embeddings.embed(EmbeddingRequest(model, texts)).vectors
        for at, (text, vector) in enumerate(zip(texts, vectors, strict=True)):
            chunks.append(DocumentChunk(f"{number:04}", at, text, 0, {}, vector))
    segments = NumpySegments()
    segment = segments.open(segments.build(chunks))
    found = []
    for number, question in enumerate(collection.questions):
        embedded = embeddings.embed(EmbeddingRequest(model, (question,), purpose="query"))
        terms = terms_of(question)
        hits = segments.hits([segment], SegmentQuestion(terms, [embedded.vectors[0]], CANDIDATES))
        scored = [Scored(hit.chunk_id, hit.keyword_score, hit.vector_score) for hit in hits]
        documents = [segment.row(hit.position).document_id for hit in hits]
        found.append(Found(question, f"{number:04}", scored, documents, embedded.tokens))
    return tuple(found)


def odd(found: Sequence[Found]) -> Sequence[Found]:
    """Return the questions with odd numbers, counted from one: weights are chosen by them."""
    return found[::2]


def even(found: Sequence[Found]) -> Sequence[Found]:
    """Return the questions with even numbers, counted from one: figures are of them."""
    return found[1::2]


def ndcg(found: Iterable[Found], model: str, mode: SearchMode = "hybrid") -> float:
    """Return the mean gain of the questions, with the product's weights."""
    gains = [each.gain(mode, each.share(model)) for each in found]
    return math.fsum(gains) / len(gains)
