"""Documents of memory banks: insert, replace, list, drop, and their attributes.

A document is inserted within a request, or by a job that begins and later completes it. Whatever happens in between,
searches find all of one insertion or nothing of it, and that is the newest completed one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import Conflict, InvalidRequest, NotFound
from turnstone.domain.memory.banks import Bank, BankRef
from turnstone.domain.memory.chunking import document_chunks
from turnstone.domain.memory.documents import (
    Document,
    DocumentChunk,
    DocumentPage,
    DocumentProblem,
    DocumentQuery,
    NewDocument,
    TextDocument,
    digest_of,
)
from turnstone.domain.provider_data import ProviderData
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.records import Operation, Put
from turnstone.ports.system import Clock, IdGenerator
from turnstone.services.memory.banks import Banks
from turnstone.services.memory.embedding import BankEmbedding
from turnstone.services.memory.folding import Folding, check_room, is_due
from turnstone.services.memory.indexes import Indexes
from turnstone.store.layout.contention import retried
from turnstone.store.memory.contents import BankChange, BankContents, SegmentGone, put_change, within_limits
from turnstone.store.memory.documents import (
    DOCUMENTS_AT_ONCE,
    DocumentStore,
    StoredDocument,
    creation,
    removal,
    replacement,
    update,
)

KIND = "document"
WRITTEN_AT_ONCE = 24
CONTENDED = "the document changes too fast, try again"


@dataclass(frozen=True, slots=True)
class DocumentDeps:
    banks: Banks
    contents: BankContents
    store: DocumentStore
    folding: Folding
    indexes: Indexes
    embedding: BankEmbedding
    clock: Clock
    ids: IdGenerator


class Prepared(NamedTuple):
    """A document of a request, cut into chunks."""

    new: NewDocument
    chunks: tuple[DocumentChunk, ...]
    digest: str


class Documents:
    def __init__(self, deps: DocumentDeps) -> None:
        self._deps = deps

    def insert(
        self,
        caller: Caller,
        bank_id: str,
        given: Sequence[TextDocument],
        provider_data: ProviderData,
        attempt: Attempt,
    ) -> None:
        """Insert documents, each durable and found by every search when this returns.

        A document replaces the one of its id, which changes nothing if that is equal. Of several with one id the last
        counts. After an error, some may have been inserted, each of them wholly.

        Raises:
            NotFound: no such bank.
            InvalidRequest: the bank is full.
            ModelError: the documents could not be embedded; none is inserted.
            IdempotencyMismatch: the request's key was used for another body.
        """
        stored = self._deps.banks.visible(caller, bank_id)
        bank, ref = stored.bank, BankRef(caller.tenant, stored.content_id, bank_id)
        if self._deps.contents.is_repeated(ref, attempt, self._deps.clock.now()):
            return
        self._deps.banks.touch(caller.tenant, [stored])
        prepared = {each.new.document_id: _prepared(bank, each) for each in given}
        before = self._found(ref, list(prepared))
        changed = [each for each in prepared.values() if not _is_same(before.get(each.new.document_id), each)]
        check_room(self._deps.contents, ref, sum(len(each.chunks) for each in changed), "documents")
        embedded = self._embedded(caller, bank, changed, provider_data)
        puts = [self._put(ref, each.new.document_id, each.chunks, each.new.attributes) for each in embedded]
        following, last = iter(embedded), None
        for some in within_limits(puts, WRITTEN_AT_ONCE):
            last = self._replace(ref, [next(following) for _ in some], some, last)
        self._deps.contents.complete(ref, attempt, self._deps.clock.now())

    def begin(self, ref: BankRef, new: NewDocument) -> Document:
        """Record that the document is being ingested; earlier content of its id is found until that is completed.

        Raises:
            NotFound: the bank was deleted.
        """
        return retried(lambda: self._begun(ref, new), CONTENDED)

    def complete(self, ref: BankRef, document_id: str, insertion_id: str, chunks: Sequence[DocumentChunk]) -> bool:
        """Store the chunks of a begun insertion, which replace those of earlier ones, with the status.

        Args:
            chunks: with their vectors, in a bank of vectors.

        Returns:
            Whether they are stored: not if the insertion was cancelled, or a newer one of that document was begun.

        Raises:
            NotFound: the bank was deleted.
            InvalidRequest: the bank is full.
        """

        def done(document: Document) -> Document:
            kept = document.attributes if document.next_attributes is None else document.next_attributes
            return _with_content(document, chunks, kept)

        check_room(self._deps.contents, ref, len(chunks), "documents")
        return self._end(ref, document_id, insertion_id, done, chunks)

    def fail(self, ref: BankRef, document_id: str, insertion_id: str, problem: DocumentProblem) -> bool:
        """Record that a begun insertion failed; return False as `complete` does. Raises NotFound."""
        ended = {"status": "failed", "last_error": problem, "next_attributes": None}
        return self._end(ref, document_id, insertion_id, lambda document: document.model_copy(update=ended))

    def cancel(self, caller: Caller, bank_id: str, document_id: str) -> Document:
        """Cancel the insertion if it is in progress; return the document. Raises NotFound."""
        ref = self._ref(caller, bank_id)
        ended = {"status": "cancelled", "next_attributes": None}
        document = self._existing(ref, document_id).document
        self._end(ref, document_id, document.insertion_id, lambda found: found.model_copy(update=ended))
        return self._existing(ref, document_id).document

    def set_attributes(self, caller: Caller, bank_id: str, document_id: str, attributes: Mapping[str, Any]) -> Document:
        """Replace the attributes, in the filters of every search when this returns. Raises NotFound."""
        ref = self._ref(caller, bank_id)
        return retried(
            lambda: self._with_attributes(ref, document_id, attributes), CONTENDED, on=(Conflict, SegmentGone)
        )

    def drop(self, caller: Caller, bank_id: str, document_id: str) -> None:
        """Remove the document with its content: no later search finds it. Raises NotFound."""
        ref = self._ref(caller, bank_id)

        def act() -> None:
            stored = self._existing(ref, document_id)
            content = [self._put(ref, document_id, (), {})] if stored.document.chunks else []
            self._deps.contents.write(ref, [*removal(ref, stored), *content])

        retried(act, CONTENDED)
        self._fold(ref, {document_id: 0})

    def get(self, caller: Caller, bank_id: str, document_id: str) -> Document:
        """Return the document. Raises NotFound, also for one inserted as chunks alone."""
        return self._existing(self._ref(caller, bank_id), document_id).document

    def list(self, caller: Caller, bank_id: str, query: DocumentQuery) -> DocumentPage:
        """Return the part of the bank's documents.

        Raises:
            NotFound: no such bank.
            InvalidRequest: the bank has no document `query.after`.
        """
        ref = self._ref(caller, bank_id)
        after = None if query.after is None else self._found(ref, [query.after]).get(query.after)
        if query.after is not None and after is None:
            raise InvalidRequest(f"after: the bank has no document {query.after!r}; continue after one", ("after",))
        order = after.order if after is not None else None
        stored = self._deps.store.all(ref, query.limit + 1, order, is_reverse=query.is_newest_first)
        matching = (each.document for each in stored if query.status in (None, each.document.status))
        some = tuple(islice(matching, query.limit + 1))
        return DocumentPage(some[: query.limit], len(some) > query.limit)

    def chunks(self, caller: Caller, bank_id: str, document_id: str) -> tuple[DocumentChunk, ...]:
        """Return the chunks that searches find, in the order of the text. Raises NotFound."""
        ref = self._ref(caller, bank_id)
        self._existing(ref, document_id)
        return retried(lambda: self._content(ref, document_id), CONTENDED, on=(SegmentGone,))

    def _embedded(
        self, caller: Caller, bank: Bank, prepared: Sequence[Prepared], provider_data: ProviderData
    ) -> Sequence[Prepared]:
        """Return the documents with the vectors of their chunks. Raises ModelError."""
        if bank.space is None:
            return prepared
        texts = [chunk.text for each in prepared for chunk in each.chunks]
        vectors = iter(self._deps.embedding.vectors(caller, bank.space, texts, provider_data))
        return [
            each._replace(chunks=tuple(chunk._replace(vector=next(vectors)) for chunk in each.chunks))
            for each in prepared
        ]

    def _replace(self, ref: BankRef, prepared: Sequence[Prepared], puts: Sequence[Put], last: str | None) -> str | None:
        """Store these documents with their content, all or none; return the newest order key, above `last`."""

        def act() -> str | None:
            before = self._found(ref, [each.new.document_id for each in prepared])
            operations: list[Operation] = [*puts]
            order = last
            for new, chunks, _ in prepared:
                found = before.get(new.document_id)
                stored = self._stored(found, _with_content(self._described(found, new), chunks, new.attributes), order)
                operations += replacement(ref, stored) if found else creation(ref, stored)
                order = order if found else stored.order
            self._deps.contents.write(ref, operations)
            return order

        order = retried(act, CONTENDED)
        self._fold(ref, {each.new.document_id: len(each.chunks) for each in prepared})
        return order

    def _begun(self, ref: BankRef, new: NewDocument) -> Document:
        found = self._found(ref, [new.document_id]).get(new.document_id)
        document = self._described(found, new)
        if found is not None and document.chunks:
            document = document.model_copy(update={"next_attributes": new.attributes})
        else:
            document = document.model_copy(update={"attributes": new.attributes})
        stored = self._stored(found, document)
        self._deps.contents.write(ref, replacement(ref, stored) if found else creation(ref, stored))
        return document

    def _end(
        self,
        ref: BankRef,
        document_id: str,
        insertion_id: str,
        ended: Callable[[Document], Document],
        chunks: Sequence[DocumentChunk] | None = None,
    ) -> bool:
        """End a begun insertion, with its chunks or without; return whether that is so."""

        def act() -> bool:
            found = self._found(ref, [document_id]).get(document_id)
            if found is None or found.document.insertion_id != insertion_id:
                return False
            after = ended(found.document)
            if found.document.status != "in_progress":
                return found.document.status == after.status
            content = [] if chunks is None else [self._put(ref, document_id, chunks, after.attributes)]
            self._deps.contents.write(ref, [*update(ref, found, after, self._deps.ids.new_id()), *content])
            return True

        is_ended = retried(act, CONTENDED)
        if is_ended and chunks is not None:
            self._fold(ref, {document_id: len(chunks)})
        return is_ended

    def _with_attributes(self, ref: BankRef, document_id: str, attributes: Mapping[str, Any]) -> Document:
        found = self._existing(ref, document_id)
        changes: dict[str, Any] = {"attributes": attributes, "next_attributes": None}
        document = found.document.model_copy(update=changes)
        if document == found.document:
            return document
        chunks = self._content(ref, document_id) if document.chunks else ()
        operations = update(ref, found, document, self._deps.ids.new_id())
        content = [self._put(ref, document_id, chunks, attributes)] if chunks else []
        self._deps.contents.write(ref, [*operations, *content])
        self._fold(ref, {document_id: len(chunks)})
        return document

    def _content(self, ref: BankRef, document_id: str) -> tuple[DocumentChunk, ...]:
        return self._deps.indexes.chunks_of(ref, self._deps.contents.view(ref), document_id)

    def _put(
        self, ref: BankRef, document_id: str, chunks: Sequence[DocumentChunk], attributes: Mapping[str, Any]
    ) -> Put:
        """Return the write of a document's content, of none without chunks."""
        return put_change(ref, BankChange(document_id, tuple(chunks) or None, attributes), self._deps.ids.new_id())

    def _fold(self, ref: BankRef, changed: Mapping[str, int]) -> None:
        """Fold the log if it may be long, after changes of these documents with their numbers of chunks."""
        if is_due(list(changed), sum(changed.values())):
            self._deps.folding.fold(ref)

    def _described(self, found: StoredDocument | None, new: NewDocument) -> Document:
        """Return the document at the beginning of its insertion, with the content of the earlier one."""
        return Document(
            document_id=new.document_id,
            status="in_progress",
            attributes=found.document.attributes if found else {},
            mime_type=new.mime_type,
            chunks=found.document.chunks if found else 0,
            size_bytes=new.size_bytes,
            created_at=found.document.created_at if found else self._deps.clock.now(),
            chunking=new.chunking,
            file_id=new.file_id,
            insertion_id=self._deps.ids.new_id(),
            digest=found.document.digest if found else "",
        )

    def _stored(self, found: StoredDocument | None, document: Document, last: str | None = None) -> StoredDocument:
        order = found.order if found else self._deps.ids.order_key(document.created_at, last)
        return StoredDocument(document, order, self._deps.ids.new_id())

    def _found(self, ref: BankRef, document_ids: Sequence[str]) -> dict[str, StoredDocument]:
        found: dict[str, StoredDocument] = {}
        for begin in range(0, len(document_ids), DOCUMENTS_AT_ONCE):
            some = self._deps.store.find(ref, document_ids[begin : begin + DOCUMENTS_AT_ONCE])
            found |= {each.document.document_id: each for each in some if each is not None}
        return found

    def _existing(self, ref: BankRef, document_id: str) -> StoredDocument:
        found = self._found(ref, [document_id]).get(document_id)
        if found is None:
            raise NotFound(KIND, document_id)
        return found

    def _ref(self, caller: Caller, bank_id: str) -> BankRef:
        return BankRef(caller.tenant, self._deps.banks.visible(caller, bank_id).content_id, bank_id)


def _prepared(bank: Bank, given: TextDocument) -> Prepared:
    new, text = given
    chunks = document_chunks(new.document_id, text, new.chunking or bank.chunking, new.mime_type)
    return Prepared(new, chunks, digest_of(chunks))


def _with_content(document: Document, chunks: Sequence[DocumentChunk], attributes: Mapping[str, Any]) -> Document:
    """Return the document as it is when these chunks of it are stored."""
    changes = {
        "status": "completed",
        "attributes": attributes,
        "next_attributes": None,
        "chunks": len(chunks),
        "digest": digest_of(chunks),
        "last_error": None,
    }
    return document.model_copy(update=changes)


def _is_same(found: StoredDocument | None, prepared: Prepared) -> bool:
    """Return whether the insertion would change nothing."""
    if found is None or found.document.status != "completed":
        return False
    new, document = prepared.new, found.document
    described = (new.mime_type, new.size_bytes, new.chunking, new.file_id)
    return (
        document.digest == prepared.digest
        and dict(document.attributes) == dict(new.attributes)
        and (document.mime_type, document.size_bytes, document.chunking, document.file_id) == described
    )
