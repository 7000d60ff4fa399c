"""Passages of several banks together: those that an agent keeps, and the chunks of its sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import groupby, islice, takewhile
from typing import NamedTuple

from turnstone.domain.agents.archives import (
    PASSAGE_KIND,
    Passage,
    PassageQuery,
    Position,
    id_in_source,
    position_in_source,
)
from turnstone.domain.errors import NotFound
from turnstone.domain.memory.banks import BankRef
from turnstone.domain.memory.documents import Document
from turnstone.domain.memory.questions import Hit
from turnstone.services.memory.documents.document_records import DocumentRecords, until_written
from turnstone.services.memory.indexes import WHOLE, Indexes
from turnstone.store.memory.bank_reads import BankReads
from turnstone.store.memory.banks import StoredBank
from turnstone.store.memory.contents import SegmentGone
from turnstone.store.memory.documents import StoredDocument


@dataclass(frozen=True, slots=True)
class Passages:
    """Passages of banks, which the caller has checked: each is a source, or the archival memory of one agent."""

    reads: BankReads
    records: DocumentRecords
    indexes: Indexes

    def list(self, tenant: str, banks: Sequence[StoredBank], query: PassageQuery) -> tuple[Passage, ...]:
        """Return the part of the passages, oldest first. Raises NotFound for an unknown `after` or `before`."""
        after, before = self.position(tenant, banks, query.after), self.position(tenant, banks, query.before)
        is_backwards = after is None and before is not None
        start, end = (before, None) if is_backwards else (after, before)
        slots = [self._slots(tenant, bank, query.limit, start, is_reverse=is_backwards) for bank in banks]
        merged = merge(*slots, key=_position_of, reverse=is_backwards)
        within = merged if end is None else takewhile(lambda slot: slot.position < end, merged)
        page = list(islice(within, query.limit))
        return self.read(tenant, page[::-1] if is_backwards else page)

    def read(self, tenant: str, slots: Sequence[Slot]) -> tuple[Passage, ...]:
        """Return the passages of these slots, without those that are gone; the texts of a document are read once."""
        names = list(dict.fromkeys(slot.bank.bank.bank_id for slot in slots))

        def act() -> tuple[Passage, ...]:
            opened = self.reads.open(tenant, names) if names else {}
            found: list[Passage] = []
            for _, group in groupby(slots, lambda slot: (slot.bank.content_id, slot.position.order)):
                of_document = sorted(group, key=_position_of)
                bank = opened.get(of_document[0].bank.bank.bank_id)
                if bank is not None and bank.ref.content_id == of_document[0].bank.content_id:
                    part = WHOLE
                    if bank.stored.bank.source is not None:
                        part = slice(of_document[0].position.number, of_document[-1].position.number + 1)
                    chunks = self.indexes.chunks_of(bank.ref, bank.view, of_document[0].document.document_id, part)
                    texts = [chunk.text for chunk in chunks]
                    joined = texts if part is not WHOLE else ["".join(texts)] if texts else []
                    found += [slot.passage(text) for slot, text in zip(of_document, joined, strict=False)]
            return tuple(found)

        return until_written(act, on=(SegmentGone,))

    def found(self, tenant: str, banks: Sequence[StoredBank], hits: Sequence[Hit]) -> tuple[Passage, ...]:
        """Return the passages of the hits in these banks, without those that are gone."""
        named: dict[tuple[str, str], tuple[StoredBank, StoredDocument]] = {}
        for bank in banks:
            bank_id = bank.bank.bank_id
            ids = list(dict.fromkeys(hit.chunk.document_id for hit in hits if hit.bank_id == bank_id))
            for document_id, document in self.records.found(_ref_of(tenant, bank), ids).items() if ids else ():
                named[bank_id, document_id] = bank, document
        passages = []
        for hit in hits:
            if (of_hit := named.get((hit.bank_id, hit.chunk.document_id))) is not None:
                bank, stored = of_hit
                slot = Slot(Position(stored.order, hit.chunk.position), bank, stored.document)
                passages.append(slot.passage(hit.chunk.text)._replace(score=hit.score))
        return tuple(passages)

    def count(self, tenant: str, banks: Sequence[StoredBank]) -> int:
        """Return the number of passages."""
        refs = [_ref_of(tenant, bank) for bank in banks]
        own = [ref for ref, bank in zip(refs, banks, strict=True) if bank.bank.source is None]
        sources = [ref for ref, bank in zip(refs, banks, strict=True) if bank.bank.source is not None]
        kept = sum(counts.completed for counts in self.records.store.counts(own)) if own else 0
        return kept + (sum(self.records.store.chunks(sources)) if sources else 0)

    def position(self, tenant: str, banks: Sequence[StoredBank], passage_id: str | None) -> Position | None:
        """Return the position of a passage that a query names, None for none. Raises NotFound."""
        if passage_id is None:
            return None
        position = position_in_source(passage_id)
        for bank in banks:
            ref = _ref_of(tenant, bank)
            if position is not None and bank.bank.source is not None:
                if self.records.store.at(ref, [position.order]):
                    return position
            elif position is None and bank.bank.source is None:
                order = self.records.store.order_of(ref, passage_id)
                if order is not None:
                    return Position(order, 0)
        raise NotFound(PASSAGE_KIND, passage_id)

    def _slots(
        self, tenant: str, bank: StoredBank, limit: int, start: Position | None, *, is_reverse: bool
    ) -> Iterator[Slot]:
        """Yield the slots of a bank's passages after that position, read lazily."""
        ref, documents = _ref_of(tenant, bank), self.records.store
        if start is not None:
            for document in documents.at(ref, [start.order]).values():
                yield from _slots_of(bank, StoredDocument(document, start.order, ""), start, is_reverse=is_reverse)
        for stored in documents.all(ref, limit, None if start is None else start.order, is_reverse=is_reverse):
            yield from _slots_of(bank, stored, None, is_reverse=is_reverse)


class Slot(NamedTuple):
    """A passage whose text is not read yet."""

    position: Position
    bank: StoredBank
    document: Document

    def passage(self, text: str) -> Passage:
        """Return the passage with its text."""
        document, bank = self.document, self.bank.bank
        if bank.source is None:
            return Passage(document.document_id, text, document.created_at)
        name = id_in_source(self.position)
        return Passage(name, text, document.created_at, source=bank, file_id=document.document_id)


def _slots_of(bank: StoredBank, stored: StoredDocument, start: Position | None, *, is_reverse: bool) -> Iterator[Slot]:
    chunks = stored.document.chunks
    number = min(chunks, 1) if bank.bank.source is None else chunks
    first, last = 0, number
    if start is not None:
        first, last = (0, min(start.number, number)) if is_reverse else (start.number + 1, number)
    positions = range(first, last)
    for position in reversed(positions) if is_reverse else positions:
        yield Slot(Position(stored.order, position), bank, stored.document)


def _position_of(slot: Slot) -> Position:
    return slot.position


def _ref_of(tenant: str, bank: StoredBank) -> BankRef:
    return BankRef(tenant, bank.content_id, bank.bank.bank_id)
