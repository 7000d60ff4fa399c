"""Search in memory banks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.memory.banks import Bank, BankRef, VectorSpace
from turnstone.domain.memory.documents import DocumentChunk
from turnstone.domain.memory.questions import BankQuestion, Hit, hits_within
from turnstone.domain.memory.ranking import Scored, ranked, share_of_vectors
from turnstone.domain.memory.terms import terms_of
from turnstone.domain.provider_data import ProviderData
from turnstone.ports.memory import SegmentHit, SegmentQuestion
from turnstone.services.memory.bank_parts import BankPart
from turnstone.services.memory.banks import Banks
from turnstone.services.memory.embedding import BankEmbedding
from turnstone.services.memory.indexes import Indexes
from turnstone.store.layout.contention import retried
from turnstone.store.memory.banks import StoredBank
from turnstone.store.memory.contents import BankContents, SegmentGone, View, page_of

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
        return self.search_banks(caller, [self._deps.banks.visible(caller, bank_id, "vector")], question, provider_data)

    def search_banks(
        self,
        caller: Caller,
        banks: Sequence[StoredBank],
        question: BankQuestion,
        provider_data: ProviderData,
        views: Sequence[View] = (),
    ) -> tuple[Hit, ...]:
        """Return the best chunks of several banks, as if they were one; the caller's access to them is checked before.

        Args:
            views: the states of the banks' content; none to have them read.

        Raises:
            NotFound: one of the banks was deleted.
            InvalidRequest: a bank has no vectors for a search by vectors alone.
            ModelError: the question could not be embedded.
        """
        self._deps.banks.touch(caller.tenant, banks)
        questions = self._embedded(caller, [each.bank for each in banks], question, provider_data)
        refs = [BankRef(caller.tenant, each.content_id, each.bank.bank_id) for each in banks]
        spaces = [each.bank.space for each in banks if each.bank.space is not None]
        states = iter([views] if views else [])
        return retried(
            lambda: self._found(refs, questions, spaces[0].model if spaces else None, next(states, ())),
            "the memory bank changes faster than it can be read, try again",
            on=(SegmentGone,),
        )

    def _embedded(
        self, caller: Caller, banks: Sequence[Bank], question: BankQuestion, provider_data: ProviderData
    ) -> list[BankQuestion]:
        """Return the question to each bank, with the vector that it needs, in the mode that the banks have."""
        for bank in banks:
            if bank.space is None and question.mode == "vector":
                raise InvalidRequest(f"mode: {bank.bank_id!r} has no vectors; choose 'keyword'", ("params", "mode"))
        if question.mode != "keyword" and all(bank.space is None for bank in banks):
            question = question._replace(mode="keyword")
        if question.mode == "keyword" or not question.text.strip():
            return [question] * len(banks)
        embedded: dict[VectorSpace | None, BankQuestion] = {None: question}
        for space in dict.fromkeys(bank.space for bank in banks if bank.space is not None):
            vector, tokens = self._deps.embedding.of_question(caller, space, question.text, provider_data)
            embedded[space] = question._replace(vector=vector, tokens=tokens)
        return [embedded[bank.space] for bank in banks]

    def _found(
        self, refs: Sequence[BankRef], questions: Sequence[BankQuestion], model: str | None, views: Sequence[View]
    ) -> tuple[Hit, ...]:
        if not questions:
            return ()
        parts: list[BankPart] = []
        vectors: list[Sequence[float] | None] = []
        for ref, each, view in zip(refs, questions, views or self._deps.contents.views(refs), strict=True):
            of_bank = self._deps.indexes.of_view(ref, view)
            parts += of_bank
            vectors += [each.vector] * len(of_bank)
        question = next((each for each in questions if each.vector is not None), questions[0])
        segments = [part.segment for part in parts]
        hits = self._deps.indexes.segments.hits(segments, _segment_question(question, vectors))
        scored = [Scored(hit.chunk_id, hit.keyword_score, hit.vector_score) for hit in hits]
        coverage = max((hit.keyword_score for hit in hits), default=0.0)
        share = share_of_vectors(model, question.text, question.tokens, coverage)
        best = [
            (score, parts[hits[index].segment], hits[index])
            for score, index in ranked(scored, question.mode, question.ranker, share)
            if score >= question.threshold
        ][: question.max_chunks]
        return hits_within(question.max_tokens, self._with_texts(best))

    def _with_texts(self, best: Sequence[tuple[float, BankPart, SegmentHit]]) -> list[Hit]:
        pages: dict[BankRef, list[tuple[str, int]]] = {}
        for _, part, hit in best:
            if not part.chunks:
                pages.setdefault(part.ref, []).append((part.name, page_of(hit.position)[0]))
        texts = {ref: self._deps.indexes.texts(ref, of_bank) for ref, of_bank in pages.items()}
        found = []
        for score, part, hit in best:
            row = part.segment.row(hit.position)
            if part.chunks:
                chunk = part.chunks[hit.position]
            else:
                page, index = page_of(hit.position)
                text = texts[part.ref][part.name, page][index]
                chunk = DocumentChunk(row.document_id, text.position, text.text, text.tokens, row.metadata)
            found.append(Hit(chunk, row.attributes, score, part.ref.bank_id))
        return found


def _segment_question(question: BankQuestion, vectors: Sequence[Sequence[float] | None]) -> SegmentQuestion:
    terms = terms_of(question.text) if question.mode != "vector" else []
    limit = max(CANDIDATES, 2 * question.max_chunks)
    matches = None if question.filters is None else question.filters.matches
    return SegmentQuestion(terms, vectors, limit, matches)
