"""Documents of memory banks of every kind: insert, replace, list, drop, and their attributes.

A document is inserted within a request, or by a job that begins and later completes it. Whatever happens in between,
searches find all of one insertion or nothing of it, and that is the newest completed one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import count, islice, takewhile
from typing import Any

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import Conflict, InvalidRequest, NotFound
from turnstone.domain.memory.banks import EVERY_KIND, BankKind, BankRef
from turnstone.domain.memory.documents import (
    Document,
    DocumentChunk,
    DocumentPage,
    DocumentProblem,
    DocumentQuery,
    GivenDocument,
    NewDocument,
    TextDocument,
    digest_of,
)
from turnstone.domain.provider_data import ProviderData
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.records import Operation
from turnstone.services.memory.banks import Banks
from turnstone.services.memory.documents.document_records import (
    KIND as DOCUMENT,
)
from turnstone.services.memory.documents.document_records import (
    ChunkStorage,
    DocumentRecords,
    KindContent,
    Records,
    until_written,
    with_content,
    writes_of,
)
from turnstone.services.memory.documents.document_sources import DocumentSources
from turnstone.store.layout.contention import ReadAgain
from turnstone.store.memory.banks import KIND as BANK
from turnstone.store.memory.banks import StoredBank
from turnstone.store.memory.contents import BankChange, SegmentGone
from turnstone.store.memory.documents import StoredDocument, removal, update

CANCELLED_AT_ONCE = 50
IN_PROGRESS = "in_progress"


@dataclass(frozen=True, slots=True)
class DocumentDeps:
    """Dependencies of documents.

    Attributes:
        texts: the content of banks that are searched, in this server.
        elsewhere: returns that of banks of another store by its name, None for this server.
        kinds: the contents of banks of other kinds, loaded when they are used.
        slot: holds a slot for an insertion of a tenant, of so many characters, or raises InsertionsBusy.
    """

    banks: Banks
    records: DocumentRecords
    sources: DocumentSources
    texts: ChunkStorage
    elsewhere: Callable[[str], ChunkStorage | None]
    kinds: Mapping[BankKind, Callable[[], KindContent]]
    slot: Callable[[str, int], AbstractContextManager[None]]


class Documents:
    def __init__(self, deps: DocumentDeps) -> None:
        self._deps = deps
        self._records = deps.records

    def insert(
        self,
        caller: Caller,
        bank_id: str,
        given: Sequence[TextDocument],
        provider_data: ProviderData,
        attempt: Attempt,
        kinds: Collection[BankKind] = EVERY_KIND,
    ) -> None:
        """Insert documents, each durable and found by every search when this returns.

        A document replaces the one of its id, which changes nothing if that is equal. Of several with one id the last
        counts. After an error, some may have been inserted, each of them wholly.

        Raises:
            NotFound: no such bank of these kinds.
            InvalidRequest: the bank is full, or a document has no text, or none for a bank of this kind.
            ModelError: a model failed; none is inserted.
            MemoryProviderError: the store of the bank's content failed.
            IdempotencyMismatch: the request's key was used for another body.
            InsertionsBusy: other large insertions came first.
        """
        stored = self._deps.banks.visible(caller, bank_id)
        if stored.bank.kind not in kinds:
            raise NotFound(BANK, bank_id)
        contents, ref = self._records.contents, _ref_of(caller, stored)
        if contents.is_repeated(ref, attempt, self._records.clock.now()):
            return
        self._deps.banks.touch(caller.tenant, [stored])
        newest = {each.given.new.document_id: each for each in self._deps.sources.read(given)}
        before = self._records.found(ref, list(newest))
        changed = [each for each in newest.values() if not _is_same(before.get(each.given.new.document_id), each)]
        if changed:
            with self._deps.slot(caller.tenant, sum(len(each.given.text) for each in changed)):
                self._content(stored).insert(caller, stored.bank, ref, changed, provider_data)
        for document_id, each in newest.items():
            found = before.get(document_id)
            if _is_same(found, each) and found and found.document.attributes != each.given.new.attributes:
                self._describe(stored, ref, document_id, each.given.new.attributes, partial(_is_same, given=each))
        contents.complete(ref, attempt, self._records.clock.now())

    def begin(self, ref: BankRef, new: NewDocument) -> Document:
        """Record that a document of texts is being ingested; its earlier content is found until that is completed.

        Raises:
            NotFound: the bank was deleted.
        """

        def act() -> Document:
            found = self._records.found(ref, [new.document_id]).get(new.document_id)
            stored = self._records.stored(found, self._records.begun(found, new))
            self._records.contents.write(ref, writes_of(ref, stored, found))
            return stored.document

        return until_written(act, on=(Conflict,))

    def complete(
        self,
        ref: BankRef,
        document_id: str,
        insertion_id: str,
        chunks: Sequence[DocumentChunk],
        stored: StoredBank | None = None,
    ) -> bool:
        """Store the chunks of a begun insertion, which replace those of earlier ones, with the status.

        Args:
            chunks: with their vectors, in a bank of vectors.
            stored: the bank as read before, None to read it: a write finds out whether it was deleted since.

        Returns:
            Whether they are stored: not if the insertion was cancelled, or a newer one of that document was begun.

        Raises:
            NotFound: the bank was deleted.
            InvalidRequest: the bank is full.
        """
        stored = stored or self._deps.banks.lent(ref.tenant, ref.bank_id)
        if stored.content_id != ref.content_id:
            raise NotFound(BANK, ref.bank_id)
        texts, digest = self._texts(stored), digest_of(chunks)
        texts.check_room(ref, len(chunks))

        def completed(document: Document) -> Document:
            return with_content(document, len(chunks), digest)

        def store(after: Document, records: Records) -> None:
            texts.store(ref, BankChange(document_id, tuple(chunks) or None, after.attributes), records)

        return self._end(ref, document_id, insertion_id, completed, store)

    def fail(self, ref: BankRef, document_id: str, insertion_id: str, problem: DocumentProblem) -> bool:
        """Record that a begun insertion failed; return False as `complete` does. Raises NotFound."""
        ended = {"status": "failed", "last_error": problem, "next_attributes": None, "progress": None}
        return self._end(ref, document_id, insertion_id, lambda document: document.model_copy(update=ended))

    def cancel(self, caller: Caller, bank_id: str, document_id: str) -> Document:
        """Cancel the insertion if it is in progress; return the document. Raises NotFound."""
        ref = self._ref(caller, bank_id)
        ended = {"status": "cancelled", "next_attributes": None, "progress": None, "last_error": None}
        document = self._records.existing(ref, document_id).document
        self._end(ref, document_id, document.insertion_id, lambda found: found.model_copy(update=ended))
        return self._records.existing(ref, document_id).document

    def cancel_all(self, caller: Caller, bank_id: str, document_ids: Sequence[str], kind: BankKind | None) -> None:
        """Cancel the insertions of these documents that are in progress. Raises NotFound: no such bank."""
        ref = self._ref(caller, bank_id, kind)
        ended = {"status": "cancelled", "next_attributes": None, "progress": None, "last_error": None}

        def act(some: Sequence[str]) -> None:
            running = [each for each in self._records.found(ref, some).values() if each.document.status == IN_PROGRESS]
            writes: list[Operation] = []
            for found in running:
                document = found.document.model_copy(update=ended)
                writes += update(ref, found, document, self._records.ids.new_id())
            if writes:
                self._records.contents.write(ref, writes)

        for begin in range(0, len(document_ids), CANCELLED_AT_ONCE):
            some = document_ids[begin : begin + CANCELLED_AT_ONCE]
            until_written(partial(act, some), on=(Conflict,))

    def set_attributes(
        self,
        caller: Caller,
        bank_id: str,
        document_id: str,
        attributes: Mapping[str, Any],
        kind: BankKind | None = None,
    ) -> Document:
        """Replace the attributes, in the filters of every search when this returns.

        Raises NotFound, as all methods do for a bank of another kind, unless any kind is allowed.
        """
        stored = self._deps.banks.visible(caller, bank_id, kind)
        document = self._describe(stored, _ref_of(caller, stored), document_id, attributes, lambda _: True)
        if document is None:
            raise NotFound(DOCUMENT, document_id)
        return document

    def describe_insertion(
        self, caller: Caller, bank_id: str, document_id: str, attributes: Mapping[str, Any], insertion_id: str
    ) -> Document | None:
        """Replace the attributes of the document of an insertion; None if another replaced it, or it was removed.

        Raises NotFound: the bank was deleted.
        """
        stored = self._deps.banks.visible(caller, bank_id)
        return self._describe(
            stored,
            _ref_of(caller, stored),
            document_id,
            attributes,
            lambda found: found.document.insertion_id == insertion_id,
        )

    def _describe(
        self,
        stored: StoredBank,
        ref: BankRef,
        document_id: str,
        attributes: Mapping[str, Any],
        is_same: Callable[[StoredDocument], bool],
    ) -> Document | None:
        """Replace the attributes, only while the document is the one that is meant; None if it is not, or is gone.

        An insertion that came in between has attributes of its own, which count as the later ones.
        """
        content = self._content(stored)

        def act() -> Document | None:
            found = self._records.found(ref, [document_id]).get(document_id)
            if found is None or not is_same(found):
                return None
            changes: dict[str, Any] = {"attributes": dict(attributes), "next_attributes": None}
            document = found.document.model_copy(update=changes)
            if document != found.document:
                records = self._while_same(ref, found, lambda: update(ref, found, document, self._records.ids.new_id()))
                if document.chunks:
                    content.rewrite(ref, found, attributes, records)
                else:
                    self._records.contents.write(ref, records())
            return document

        return until_written(act, on=(Conflict, ReadAgain, SegmentGone))

    def drop(self, caller: Caller, bank_id: str, document_id: str, kind: BankKind | None = None) -> None:
        """Remove the document with its content: no later search finds it. Raises NotFound."""
        stored = self._deps.banks.visible(caller, bank_id, kind)
        ref, content = _ref_of(caller, stored), self._content(stored)

        def act() -> None:
            found = self._records.existing(ref, document_id)
            if found.document.chunks:
                content.drop(ref, found, lambda: removal(ref, found, self._records.clock.now()))
            else:
                self._records.contents.write(ref, removal(ref, found, self._records.clock.now()))

        until_written(act, on=(Conflict,))

    def get(self, caller: Caller, bank_id: str, document_id: str, kind: BankKind | None = None) -> Document:
        """Return the document. Raises NotFound, also for one inserted as chunks alone."""
        return self._records.existing(self._ref(caller, bank_id, kind), document_id).document

    def list(self, caller: Caller, bank_id: str, query: DocumentQuery, kind: BankKind | None = None) -> DocumentPage:
        """Return the part of the bank's documents.

        Raises:
            NotFound: no such bank.
            InvalidRequest: the bank has no document `query.after` or `query.before`.
        """
        ref = self._ref(caller, bank_id, kind)
        after, before = self._order_of(ref, "after", query.after), self._order_of(ref, "before", query.before)
        is_backwards = after is None and before is not None
        start, end = (before, None) if is_backwards else (after, before)
        is_reverse = query.is_newest_first is not is_backwards
        stored: Iterable[StoredDocument] = self._records.store.all(ref, query.limit + 1, start, is_reverse=is_reverse)
        if end is not None:
            stored = takewhile(lambda each: each.order > end if is_reverse else each.order < end, stored)
        matching = (each.document for each in stored if query.status in (None, each.document.status))
        some = tuple(islice(matching, query.limit + 1))
        page = some[: query.limit]
        return DocumentPage(page[::-1] if is_backwards else page, len(some) > query.limit)

    def chunks(
        self, caller: Caller, bank_id: str, document_id: str, kind: BankKind | None = None
    ) -> tuple[DocumentChunk, ...]:
        """Return the chunks that queries find, in the order of the document. Raises NotFound, ContentLost."""
        stored = self._deps.banks.visible(caller, bank_id, kind)
        ref, content = _ref_of(caller, stored), self._content(stored)
        return until_written(lambda: content.chunks(ref, self._records.existing(ref, document_id)), on=(SegmentGone,))

    def _order_of(self, ref: BankRef, name: str, document_id: str | None) -> str | None:
        """Return the order key of a document that a query names, None for none. Raises InvalidRequest."""
        if document_id is None:
            return None
        order = self._records.store.order_of(ref, document_id)
        if order is None:
            problem = f"{name}: the bank has no document {document_id!r}; continue after one"
            raise InvalidRequest(problem, (name,))
        return order

    def _end(
        self,
        ref: BankRef,
        document_id: str,
        insertion_id: str,
        ended: Callable[[Document], Document],
        store: Callable[[Document, Records], None] | None = None,
    ) -> bool:
        """End a begun insertion of texts; return whether that is so.

        Args:
            store: stores the content of the document with those writes of its record; None for the record alone.
        """

        def act() -> bool:
            found = self._records.found(ref, [document_id]).get(document_id)
            if found is None or found.document.insertion_id != insertion_id:
                return False
            after = ended(found.document)
            if ref.is_of_source:
                after = after.model_copy(update={"ended_at": self._records.clock.now()})
            if found.document.status != "in_progress":
                return found.document.status == after.status
            records = self._while_same(ref, found, lambda: update(ref, found, after, self._records.ids.new_id()))
            if store is None:
                self._records.contents.write(ref, records())
            else:
                store(after, records)
            return True

        return until_written(act, on=(Conflict, ReadAgain))

    def _while_same(self, ref: BankRef, found: StoredDocument, writes: Records) -> Records:
        """Return the writes, which later tries make only while the document's record is as it was found."""
        tries = count()

        def records() -> Sequence[Operation]:
            if next(tries):
                now = self._records.found(ref, [found.document.document_id]).get(found.document.document_id)
                if now is None or now.state != found.state:
                    raise ReadAgain
            return writes()

        return records

    def _content(self, stored: StoredBank) -> KindContent:
        kind = self._deps.kinds.get(stored.bank.kind)
        return self._texts(stored) if kind is None else kind()

    def _texts(self, stored: StoredBank) -> ChunkStorage:
        return self._deps.elsewhere(stored.bank.provider_id) or self._deps.texts

    def _ref(self, caller: Caller, bank_id: str, kind: BankKind | None = None) -> BankRef:
        return _ref_of(caller, self._deps.banks.visible(caller, bank_id, kind))


def _ref_of(caller: Caller, stored: StoredBank) -> BankRef:
    return BankRef(caller.tenant, stored.content_id, stored.bank.bank_id)


def _is_same(found: StoredDocument | None, given: GivenDocument) -> bool:
    """Return whether the insertion would change nothing, of its attributes apart."""
    if found is None or found.document.status != "completed" or found.document.digest != given.digest:
        return False
    new, document = given.given.new, found.document
    described = (new.mime_type, new.size_bytes, new.chunking, new.file_id)
    return (document.mime_type, document.size_bytes, document.chunking, document.file_id) == described
