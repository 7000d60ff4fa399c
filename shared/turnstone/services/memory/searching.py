"""Search in memory banks: in those of several stores as in one.

The chunks that other stores find have scores by vectors only. Banks of this server are then searched in the same way,
so that all scores are cosines, on one scale; those without vectors are searched by keywords apart, and their hits come
in turn with the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.memory.banks import EMBEDDED_PROVIDER, Bank, BankRef, VectorSpace
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

if TYPE_CHECKING:
    from turnstone.services.memory.provided_search import ProvidedSearch

CANDIDATES = 100  # of either half of a search, before both are fused


@dataclass(frozen=True, slots=True)
class SearchingDeps:
    banks: Banks
    contents: BankContents
    indexes: Indexes
    embedding: BankEmbedding
    provided: Callable[[], ProvidedSearch]


class SearchedBank(NamedTuple):
    """A bank with the question to it."""

    ref: BankRef
    question: BankQuestion
    bank: Bank


class ElsewhereHit(NamedTuple):
    """A chunk that another store found, with its score as of a `SegmentHit`."""

    bank_id: str
    chunk: DocumentChunk
    attributes: Mapping[str, Any]
    vector_score: float
    keyword_score: float = 0.0

    @property
    def chunk_id(self) -> str:
        return self.chunk.chunk_id


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
            Unsupported: another store, which has the chunks of a bank, lacks a function for the question.
            ModelError: the question could not be embedded.
            MemoryProviderError: another store failed.
        """
        self._deps.banks.touch(caller.tenant, banks)
        read: Sequence[View | None] = views or [None] * len(banks)
        states = list(zip(banks, read, strict=True))
        elsewhere = self._elsewhere(banks)
        if not elsewhere:
            return self._searched(caller, states, question, provider_data)
        self._deps.provided().refuse(elsewhere, question)
        with_vectors = [each for each in states if each[0].bank.space is not None]
        others = [each for each in states if each[0].bank.space is None]
        unlimited = question._replace(max_tokens=None)
        of_others = self._searched(caller, others, unlimited, provider_data) if others else ()
        found = self._searched(caller, with_vectors, unlimited._replace(mode="vector"), provider_data)
        in_turn = (hit for row in zip_longest(found, of_others) for hit in row if hit is not None)
        return hits_within(question.max_tokens, islice(in_turn, question.max_chunks))

    def _elsewhere(self, banks: Sequence[StoredBank]) -> list[Bank]:
        """Return the banks whose chunks another store has."""
        named = [each.bank for each in banks if each.bank.provider_id != EMBEDDED_PROVIDER]
        return [bank for bank in named if self._deps.provided().has(bank)]

    def _searched(
        self,
        caller: Caller,
        states: Sequence[tuple[StoredBank, View | None]],
        question: BankQuestion,
        provider_data: ProviderData,
    ) -> tuple[Hit, ...]:
        """Return the best chunks of banks, each with the state of its content or None to have it read."""
        banks, views = [stored for stored, _ in states], [view for _, view in states if view is not None]
        questions = self._embedded(caller, [each.bank for each in banks], question, provider_data)
        elsewhere = {bank.bank_id for bank in self._elsewhere(banks)}
        searched = [
            SearchedBank(BankRef(caller.tenant, each.content_id, each.bank.bank_id), of_bank, each.bank)
            for each, of_bank in zip(banks, questions, strict=True)
        ]
        others = [hit for each in searched if each.ref.bank_id in elsewhere for hit in self._found_elsewhere(each)]
        read = iter([views] if len(views) == len(banks) else [])
        return retried(
            lambda: self._found(searched, next(read, ()), elsewhere, others),
            "the memory bank changes faster than it can be read, try again",
            on=(SegmentGone,),
        )

    def _found_elsewhere(self, searched: SearchedBank) -> Iterator[ElsewhereHit]:
        for hit in self._deps.provided().found(searched.ref, searched.bank.provider_id, searched.question):
            yield ElsewhereHit(searched.ref.bank_id, hit.chunk, hit.attributes, hit.cosine)

    def _embedded(
        self, caller: Caller, banks: Sequence[Bank], question: BankQuestion, provider_data: ProviderData
    ) -> list[BankQuestion]:
        """Return the question to each bank, with the vector that it needs, in the mode that the banks have."""
        for bank in banks:
            if bank.space is None and question.mode == "vector":
                location = question.fields.mode
                problem = f"{bank.bank_id!r} has no vectors; choose 'keyword'"
                raise InvalidRequest(f"{'.'.join(location)}: {problem}", location)
        has_vectors = any(bank.space is not None for bank in banks)
        question = question._replace(mode=(question.mode or "hybrid") if has_vectors else "keyword")
        if question.mode == "keyword" or not question.text.strip():
            return [question] * len(banks)
        embedded: dict[VectorSpace | None, BankQuestion] = {None: question}
        for space in dict.fromkeys(bank.space for bank in banks if bank.space is not None):
            vector, tokens = self._deps.embedding.of_question(caller, space, question.text, provider_data)
            embedded[space] = question._replace(vector=vector, tokens=tokens)
        return [embedded[bank.space] for bank in banks]

    def _found(
        self,
        searched: Sequence[SearchedBank],
        views: Sequence[View],
        elsewhere: Collection[str],
        others: Sequence[ElsewhereHit],
    ) -> tuple[Hit, ...]:
        """Return the best chunks of this server's banks and the others that were found.

        Args:
            elsewhere: the banks without content in this server; they are read only to check that they exist.
        """
        if not searched:
            return ()
        parts: list[BankPart] = []
        vectors: list[Sequence[float] | None] = []
        read = views or self._deps.contents.views([each.ref for each in searched])
        for each, view in zip(searched, read, strict=True):
            if each.ref.bank_id not in elsewhere:
                of_bank = self._deps.indexes.of_view(each.ref, view)
                parts += of_bank
                vectors += [each.question.vector] * len(of_bank)
        questions = [each.question for each in searched]
        question = next((each for each in questions if each.vector is not None), questions[0])
        segments = [part.segment for part in parts]
        hits: list[SegmentHit | ElsewhereHit] = [*others]
        if segments or not elsewhere:
            hits += self._deps.indexes.segments.hits(segments, _segment_question(question, vectors))
        scored = [Scored(hit.chunk_id, hit.keyword_score, hit.vector_score) for hit in hits]
        coverage = max((hit.keyword_score for hit in hits), default=0.0)
        model = next((each.bank.space.model for each in searched if each.bank.space is not None), None)
        share = share_of_vectors(model, question.text, question.tokens, coverage)
        best = [
            (score, hits[index])
            for score, index in ranked(scored, question.mode or "hybrid", question.ranker, share)
            if score >= question.threshold
        ][: question.max_chunks]
        return hits_within(question.max_tokens, self._with_texts(best, parts))

    def _with_texts(
        self, best: Sequence[tuple[float, SegmentHit | ElsewhereHit]], parts: Sequence[BankPart]
    ) -> list[Hit]:
        pages: dict[BankRef, list[tuple[str, int]]] = {}
        for _, hit in best:
            if isinstance(hit, SegmentHit) and not (part := parts[hit.segment]).chunks:
                pages.setdefault(part.ref, []).append((part.name, page_of(hit.position)[0]))
        texts = {ref: self._deps.indexes.texts(ref, of_bank) for ref, of_bank in pages.items()}
        found = []
        for score, hit in best:
            if isinstance(hit, ElsewhereHit):
                found.append(Hit(hit.chunk, hit.attributes, score, hit.bank_id))
                continue
            part = parts[hit.segment]
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
