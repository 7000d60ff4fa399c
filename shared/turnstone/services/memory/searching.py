"""Search in memory banks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.memory.banks import Bank
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.domain.memory.filters import Filter
from turnstone.domain.memory.questions import BankQuestion, Hit
from turnstone.domain.memory.ranking import Scored, ranked, share_of_vectors
from turnstone.domain.memory.terms import terms_of
from turnstone.domain.provider_data import ProviderData
from turnstone.ports.memory import Corpus, SegmentHit, SegmentQuestion
from turnstone.services.memory.banks import Banks
from turnstone.services.memory.embedding import BankEmbedding
from turnstone.services.memory.indexes import BankPart, Indexes
from turnstone.store.layout.contention import retried
from turnstone.store.memory.contents import BankContents, BankRef, SegmentGone, page_of

CANDIDATES = 100  # of either half of a search, before both are fused


@dataclass(frozen=True, slots=True)
class SearchingDeps:
    banks: Banks
    contents: BankContents
    indexes: Indexes
    embedding: BankEmbedding


class Searching:
    def __init__(self, deps: SearchingDeps) -> None:
        self._deps = deps

    def search(
        self, caller: Caller, bank_id: str, question: BankQuestion, provider_data: ProviderData
    ) -> tuple[Hit, ...]:
        """Return the best chunks of a bank, the best first.

        Raises:
            NotFound: no such bank.
            InvalidRequest: the bank has no vectors for a search by vectors alone.
            ModelError: the question could not be embedded.
        """
        bank, content_id = self._deps.banks.visible(caller, bank_id)
        embedded = self._embedded(caller, bank, question, provider_data)
        ref = BankRef(caller.tenant, content_id, bank_id)
        return retried(
            lambda: self._found(ref, bank, embedded),
            "the memory bank changes faster than it can be read, try again",
            on=(SegmentGone,),
        )

    def _embedded(
        self, caller: Caller, bank: Bank, question: BankQuestion, provider_data: ProviderData
    ) -> BankQuestion:
        """Return the question with the vector that it needs, and in the mode that the bank has."""
        if bank.space is None:
            if question.mode == "vector":
                raise InvalidRequest(f"mode: {bank.bank_id!r} has no vectors; choose 'keyword'", ("params", "mode"))
            return question._replace(mode="keyword")
        if question.mode == "keyword" or not question.text.strip():
            return question
        vector, tokens = self._deps.embedding.of_question(caller, bank.space, question.text, provider_data)
        return question._replace(vector=vector, tokens=tokens)

    def _found(self, ref: BankRef, bank: Bank, question: BankQuestion) -> tuple[Hit, ...]:
        view = self._deps.contents.view(ref)
        newer = frozenset(each.change.document_id for each in view.log)
        indexes = self._deps.indexes
        parts = [*indexes.parts(ref, view.manifest, newer), *indexes.log(ref, view.log)]
        hits = _candidates(parts, question)
        scored = [Scored(hit.chunk_id, hit.keyword_score, hit.vector_score) for _, hit in hits]
        model = bank.space.model if bank.space else None
        coverage = max((hit.keyword_score for _, hit in hits), default=0.0)
        share = share_of_vectors(model, question.text, question.tokens, coverage)
        best = [
            (score, *hits[index])
            for score, index in ranked(scored, question.mode, question.ranker, share)
            if score >= question.threshold
        ][: question.max_chunks]
        return self._with_texts(ref, best)

    def _with_texts(self, ref: BankRef, best: Sequence[tuple[float, BankPart, SegmentHit]]) -> tuple[Hit, ...]:
        pages = [(part.name, page_of(hit.position)[0]) for _, part, hit in best if not part.chunks]
        texts = self._deps.indexes.texts(ref, pages)
        found = []
        for score, part, hit in best:
            if part.chunks:
                chunk = part.chunks[hit.position]
            else:
                page, index = page_of(hit.position)
                text = texts[part.name, page][index]
                document_id, metadata = part.segment.row(hit.position)
                chunk = DocumentChunk(document_id, text.position, text.text, text.tokens, metadata)
            found.append(Hit(chunk, {}, score))
        return tuple(found)


def _candidates(parts: Sequence[BankPart], question: BankQuestion) -> list[tuple[BankPart, SegmentHit]]:
    """Return the best candidates of either half of the search, whatever parts they are in."""
    terms = terms_of(question.text) if question.mode != "vector" else []
    limit = max(CANDIDATES, 2 * question.max_chunks)
    corpus = _corpus(parts, frozenset(terms))
    hits = [
        (part, hit)
        for part in parts
        for hit in part.segment.hits(
            SegmentQuestion(terms, question.vector, corpus, limit, _is_kept(part.dropped, question.filters))
        )
    ]
    by_keyword = sorted(hits, key=lambda each: (-each[1].keyword_score, each[1].chunk_id))[:limit]
    by_vector = sorted(hits, key=lambda each: (-each[1].vector_score, each[1].chunk_id))[:limit]
    chosen = {id(hit): (part, hit) for part, hit in (*by_keyword, *by_vector)}
    return list(chosen.values())


def _corpus(parts: Sequence[BankPart], terms: frozenset[str]) -> Corpus:
    chunks, count = 0, 0
    frequencies: Counter[str] = Counter()
    for part in parts:
        of_part, terms_of_part = part.segment.counted(part.dropped)
        chunks += of_part
        count += terms_of_part
        frequencies.update(part.segment.frequencies(terms, part.dropped))
    return Corpus(chunks, count, frequencies)


def _is_kept(dropped: frozenset[str], filters: Filter | None) -> Callable[[str, Mapping[str, Any]], bool] | None:
    if not dropped and filters is None:
        return None
    return lambda document_id, metadata: document_id not in dropped and (filters is None or filters.matches(metadata))
