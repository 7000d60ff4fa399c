"""Records of documents, as all kinds of banks write them together with their content."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import NotFound
from turnstone.domain.memory.banks import Bank, BankRef
from turnstone.domain.memory.documents import Document, DocumentChunk, GivenDocument, NewDocument
from turnstone.domain.provider_data import ProviderData
from turnstone.ports.records import Operation
from turnstone.ports.system import Clock, IdGenerator
from turnstone.store.layout.contention import retried
from turnstone.store.memory.contents import BankChange, BankContents
from turnstone.store.memory.documents import DOCUMENTS_AT_ONCE, DocumentStore, StoredDocument, creation, replacement

KIND = "document"
CONTENDED = "the document changes too fast, try again"
TRIES = 32  # more than writers of one document at a time
Result = TypeVar("Result")
Records = Callable[[], Sequence[Operation]]  # returns writes of documents' records, as they are when it is called


class KindContent(Protocol):
    """The content that documents have in a bank of one kind."""

    def insert(
        self, caller: Caller, bank: Bank, ref: BankRef, given: Sequence[GivenDocument], provider_data: ProviderData
    ) -> None:
        """Store documents of different ids with their content, each of them wholly or not, in place of earlier ones.

        Raises:
            NotFound: the bank was deleted.
            InvalidRequest: a document has no content for this kind, or the bank is full.
            ModelError: a model that makes the content failed; nothing is stored.
        """

    def drop(self, ref: BankRef, stored: StoredDocument, records: Records) -> None:
        """Remove the content of a document that has some, with these writes of its record, or neither.

        Raises Conflict: a condition of those writes does not hold.
        """

    def rewrite(self, ref: BankRef, stored: StoredDocument, attributes: Mapping[str, Any], records: Records) -> None:
        """Give the content other attributes, with these writes of the document's record, or neither.

        Raises Conflict, as `drop` does, and SegmentGone: read the document again.
        """

    def chunks(self, ref: BankRef, stored: StoredDocument) -> tuple[DocumentChunk, ...]:
        """Return the chunks that queries find of a document, in its order. Raises SegmentGone, ContentLost."""


class ChunkStorage(KindContent, Protocol):
    """The content of banks that are searched, stored by this server or by a provider."""

    def check_room(self, ref: BankRef, added: int) -> None:
        """Raise InvalidRequest if the bank has no room for that many more chunks."""

    def store(self, ref: BankRef, change: BankChange, records: Records) -> None:
        """Store the content of a document, with the writes of its record, or neither.

        Args:
            records: called before each try, of which there may be several.

        Raises:
            Conflict: a condition of those writes does not hold.
        """


@dataclass(frozen=True, slots=True)
class DocumentRecords:
    contents: BankContents
    store: DocumentStore
    clock: Clock
    ids: IdGenerator

    def found(self, ref: BankRef, document_ids: Sequence[str]) -> dict[str, StoredDocument]:
        """Return those of the documents that the bank has, by id."""
        found: dict[str, StoredDocument] = {}
        for begin in range(0, len(document_ids), DOCUMENTS_AT_ONCE):
            some = self.store.find(ref, document_ids[begin : begin + DOCUMENTS_AT_ONCE])
            found |= {each.document.document_id: each for each in some if each is not None}
        return found

    def existing(self, ref: BankRef, document_id: str) -> StoredDocument:
        """Return the document. Raises NotFound."""
        found = self.found(ref, [document_id]).get(document_id)
        if found is None:
            raise NotFound(KIND, document_id)
        return found

    def begun(self, found: StoredDocument | None, new: NewDocument) -> Document:
        """Return the document at the beginning of its insertion, with the content of the earlier one."""
        before = found.document if found else None
        document = Document(
            document_id=new.document_id,
            status="in_progress",
            attributes=new.attributes,
            mime_type=new.mime_type,
            size_bytes=new.size_bytes,
            created_at=before.created_at if before else self.clock.now(),
            chunking=new.chunking,
            file_id=new.file_id,
            insertion_id=self.ids.new_id(),
            source_version=new.source_version,
            filename=new.filename,
        )
        if before is None or not before.chunks:
            return document
        kept = {name: getattr(before, name) for name in ("attributes", "chunks", "digest", "found_id")}
        return document.model_copy(update={**kept, "next_attributes": dict(new.attributes)})

    def stored(self, found: StoredDocument | None, document: Document, last: str | None = None) -> StoredDocument:
        """Return the next state of a document's record; the order key of a new one is above `last`."""
        order = found.order if found else self.ids.order_key(document.created_at, last)
        return StoredDocument(document, order, self.ids.new_id())


def until_written(act: Callable[[], Result], on: tuple[type[Exception], ...]) -> Result:
    """Return the act's result, which reads and writes documents and raises one of these errors for each other writer.

    Raises StoreUnavailable where too many others write the same documents.
    """
    return retried(act, CONTENDED, TRIES, on)


def writes_of(ref: BankRef, stored: StoredDocument, found: StoredDocument | None) -> list[Operation]:
    """Return the writes of a document's record, whether the bank has one of its id or not."""
    return replacement(ref, stored) if found else creation(ref, stored)


def with_content(document: Document, chunks: int, digest: str) -> Document:
    """Return the document as it is when its insertion is completed with that number of chunks."""
    attributes = document.attributes if document.next_attributes is None else document.next_attributes
    changes = {
        "status": "completed",
        "attributes": attributes,
        "next_attributes": None,
        "chunks": chunks,
        "digest": digest,
        "found_id": document.insertion_id if chunks else "",
        "last_error": None,
        "progress": None,
    }
    return document.model_copy(update=changes)
