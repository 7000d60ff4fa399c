"""A run of an insertion's job: read the file, cut its text into chunks, make their vectors, store both.

Vectors are stored in pages while they are made, together with the progress in the document's record, so that a long
insertion continues where an earlier run was. One that fits in a page stores none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from tempfile import SpooledTemporaryFile
from typing import IO

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import (
    Conflict,
    ContentLost,
    DayLimitReached,
    InvalidRequest,
    MemoryProviderError,
    ModelError,
    ModelNotFound,
    ModelRefused,
    NotFound,
    Overloaded,
)
from turnstone.domain.files.stored_files import StoredFile
from turnstone.domain.memory.banks import Bank, BankRef, VectorSpace
from turnstone.domain.memory.documents import PLAIN_TEXT, Document, DocumentChunk, IngestProgress
from turnstone.domain.memory.ingestions import Ingestion
from turnstone.domain.memory.texts.chunking import MARKDOWN, document_chunks
from turnstone.domain.memory.texts.extraction import DocumentFile, Extracted, ExtractionFailed, ProblemCode, unreadable
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.values.cancellation import StopSignal
from turnstone.ports.extracting import Extractor
from turnstone.ports.records import Operation
from turnstone.services.memory.banks import Banks
from turnstone.services.memory.documents.document_records import DocumentRecords, until_written
from turnstone.services.memory.documents.documents import Documents
from turnstone.services.memory.embedding import EMBEDDED_AT_ONCE, BankEmbedding
from turnstone.store.memory.documents import StoredDocument, update
from turnstone.store.memory.ingestions import IngestionStore, digest_of_texts, put_vectors

MOST_FILE_BYTES = 512 * 1024 * 1024
IN_MEMORY_BYTES = 1024 * 1024
PAGE_CHUNKS = 1_024
DELETED = "the file was deleted before it was inserted; upload it again"
TOO_LARGE = f"the file has more than {MOST_FILE_BYTES // 1024 // 1024} MiB; divide it"
LOST = "the content of the file is lost; upload it again"
TRANSIENT = (ModelError, MemoryProviderError, DayLimitReached, Overloaded)  # apart from refusals by a model
TIME_OVER = "the run of the job is over"


class RunEnded(Exception):
    """The insertion has failed for good. The message is for the document's owner."""

    def __init__(self, code: ProblemCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class RunPostponed(Exception):
    """The insertion continues in another run of its job.

    Attributes:
        is_failure: whether something failed: wait, and count it. Else the next run continues at once.
    """

    def __init__(self, message: str, *, is_failure: bool = True) -> None:
        super().__init__(message)
        self.is_failure = is_failure


@dataclass(frozen=True, slots=True)
class IngestRunDeps:
    """Dependencies of runs.

    Attributes:
        open_file: returns a file that the caller may see and its bytes, or raises NotFound.
        files: returns files that the caller may see, in order, or raises NotFound.
        check_room: raises InvalidRequest if the bank has no room for that many more chunks.
        stop: cancels runs, whose jobs another process then does.
    """

    banks: Banks
    documents: Documents
    records: DocumentRecords
    store: IngestionStore
    embedding: BankEmbedding
    extractor: Callable[[], Extractor]
    open_file: Callable[[Caller, str], tuple[StoredFile, Iterator[bytes]]]
    files: Callable[[Caller, Sequence[str]], Sequence[StoredFile]]
    check_room: Callable[[BankRef, int], None]
    stop: StopSignal


class IngestRuns:
    def __init__(self, deps: IngestRunDeps) -> None:
        self._deps = deps

    def run(self, ref: BankRef, ingestion: Ingestion, document: Document, until: datetime) -> IngestProgress:
        """Store the document with its content, unless another insertion or a cancellation came first.

        Returns:
            The progress, with a number of chunks if pages of vectors may have been stored.

        Raises:
            NotFound: the bank was deleted.
            RunEnded: the document can't be ingested.
            RunPostponed: not now.
        """
        stored = self._deps.banks.lent(ref.tenant, ref.bank_id)
        if stored.content_id != ref.content_id:
            raise NotFound("memory bank", ref.bank_id)
        with _failures_sorted(self._deps.stop):
            extracted = self._extracted(ingestion, document)
            chunks = _chunks_of(stored.bank, document, extracted)
            del extracted
            if len(chunks) > EMBEDDED_AT_ONCE:
                self._deps.check_room(ref, len(chunks))  # before many requests to a model; `complete` checks again
            progress = document.progress or IngestProgress()
            if stored.bank.space is not None:
                if len(chunks) > EMBEDDED_AT_ONCE and progress.chunks != len(chunks):
                    progress = IngestProgress(tries=progress.tries, chunks=len(chunks))
                    self._note(ref, ingestion, progress)
                chunks = self._embedded(ref, ingestion, stored.bank.space, chunks, until)
            self._check_file(ingestion)
            self._deps.documents.complete(ref, ingestion.document_id, ingestion.insertion_id, chunks, stored)
        return progress

    def _extracted(self, ingestion: Ingestion, document: Document) -> Extracted:
        """Return the text of the file. Raises ExtractionFailed."""
        try:
            file, pieces = self._deps.open_file(ingestion.caller, ingestion.file_id)
            if file.size_bytes > MOST_FILE_BYTES:
                raise unreadable(TOO_LARGE)
            with SpooledTemporaryFile(IN_MEMORY_BYTES) as copy:
                for piece in pieces:
                    copy.write(piece)
                readable: IO[bytes] = copy
                given = DocumentFile(readable, file.filename, document.mime_type)
                return self._deps.extractor().extract(given, self._deps.stop)
        except NotFound:
            raise unreadable(DELETED) from None
        except ContentLost:
            raise unreadable(LOST) from None

    def _embedded(
        self,
        ref: BankRef,
        ingestion: Ingestion,
        space: VectorSpace,
        chunks: Sequence[DocumentChunk],
        until: datetime,
    ) -> tuple[DocumentChunk, ...]:
        """Return the chunks with their vectors, those of earlier runs included. Raises RunPostponed at that time."""
        digest, pages = b"", 0
        made: list[Sequence[float]] = []
        if len(chunks) > EMBEDDED_AT_ONCE:
            digest = digest_of_texts(chunks)
            before = self._deps.store.vectors(ref, ingestion.insertion_id, digest, space.dimension)
            pages = len(before)
            made = [vector for page in before for vector in page][: len(chunks)]
        stored = len(made)

        def store() -> None:
            nonlocal pages, stored
            put = put_vectors(ref, ingestion.insertion_id, pages, digest, made[stored:])
            pages, stored = pages + 1, len(made)
            self._note(ref, ingestion, IngestProgress(chunks=len(chunks), embedded=stored), put)

        while len(made) < len(chunks):
            if made:
                self._check_in_progress(ref, ingestion)
            texts = [chunk.text for chunk in chunks[len(made) : len(made) + EMBEDDED_AT_ONCE]]
            try:
                made += self._deps.embedding.vectors(ingestion.caller, space, texts, NO_PROVIDER_DATA)
            except TRANSIENT:
                if len(made) > stored:
                    store()
                raise
            is_late = self._deps.stop.is_set or self._deps.records.clock.now() >= until
            if len(made) < len(chunks) and (is_late or len(made) - stored >= PAGE_CHUNKS):
                store()
                if is_late:
                    raise RunPostponed(TIME_OVER, is_failure=False)
        return tuple(chunk._replace(vector=vector) for chunk, vector in zip(chunks, made, strict=True))

    def _check_in_progress(self, ref: BankRef, ingestion: Ingestion) -> None:
        """Raise RunPostponed if the insertion counts no more: the next run ends it. Raises as `_check_file` does."""
        found = self._deps.records.found(ref, [ingestion.document_id]).get(ingestion.document_id)
        _in_progress(found, ingestion)
        self._check_file(ingestion)

    def _check_file(self, ingestion: Ingestion) -> None:
        """Raise ExtractionFailed if the file was deleted: nothing of it may be found then."""
        try:
            self._deps.files(ingestion.caller, [ingestion.file_id])
        except NotFound:
            raise unreadable(DELETED) from None

    def _note(self, ref: BankRef, ingestion: Ingestion, progress: IngestProgress, *also: Operation) -> None:
        """Write the progress into the document's record, with other records.

        Raises RunPostponed if the insertion counts no more: the next run ends it.
        """
        records = self._deps.records

        def act() -> None:
            found = records.found(ref, [ingestion.document_id]).get(ingestion.document_id)
            current = _in_progress(found, ingestion)
            document = current.document.model_copy(update={"progress": progress})
            records.contents.write(ref, [*update(ref, current, document, records.ids.new_id()), *also])

        until_written(act, on=(Conflict,))


def _in_progress(found: StoredDocument | None, ingestion: Ingestion) -> StoredDocument:
    """Return the document if this insertion of it is in progress. Raises RunPostponed."""
    if found is None or (found.document.insertion_id, found.document.status) != (ingestion.insertion_id, "in_progress"):
        raise RunPostponed("the document was removed, or another insertion replaced this one", is_failure=False)
    return found


def _chunks_of(bank: Bank, document: Document, extracted: Extracted) -> tuple[DocumentChunk, ...]:
    """Return the chunks of the text. Raises ExtractionFailed without any."""
    kind = MARKDOWN[0] if extracted.has_headings else PLAIN_TEXT
    chunks = document_chunks(document.document_id, extracted.text, document.chunking or bank.chunking, kind)
    if not chunks:
        raise unreadable("the document has no words; upload one that has")
    return chunks


@contextmanager
def _failures_sorted(stop: StopSignal) -> Iterator[None]:
    """Convert failures within the block to those that end or postpone a run; NotFound is the bank's."""
    try:
        yield
    except ExtractionFailed as failed:
        if failed.code == "server_error":
            raise RunPostponed(str(failed), is_failure=not stop.is_set) from failed
        raise RunEnded(failed.code, str(failed)) from failed
    except (ModelNotFound, ModelRefused, InvalidRequest) as refused:
        raise RunEnded("server_error", str(refused)) from refused
    except TRANSIENT as failed:
        raise RunPostponed(str(failed), is_failure=not stop.is_set) from failed
