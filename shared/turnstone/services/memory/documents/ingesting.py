"""Insertion of files into memory banks by jobs: a file becomes a document, whatever dies on the way.

The record of the document, that of its insertion and the job are one write. A run of the job ends the insertion, or
leaves a job that continues it: after a failure that may pass, or when its time is over, with the vectors made so far.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import Conflict, Forbidden, InvalidRequest, NotFound, StoreUnavailable
from turnstone.domain.files.stored_files import StoredFile
from turnstone.domain.jobs import Job
from turnstone.domain.memory.banks import SEARCHED, BankRef
from turnstone.domain.memory.documents import Document, DocumentProblem, IngestProgress, NewDocument
from turnstone.domain.memory.ingestions import Adding, Ingestion, Outdated, ref_of
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.values.outcome import Raised, Returned, guarded
from turnstone.ports.records import MAX_OPERATIONS, Operation
from turnstone.ports.supervision import Jobs
from turnstone.services.memory.banks import Banks
from turnstone.services.memory.documents.document_records import DocumentRecords, until_written
from turnstone.services.memory.documents.documents import Documents
from turnstone.services.memory.documents.ingest_runs import IngestRuns, RunEnded, RunPostponed
from turnstone.store.cleanup.jobs import JobStore, later, put_job, sent
from turnstone.store.memory.banks import StoredBank
from turnstone.store.memory.documents import StoredDocument, creation, update
from turnstone.store.memory.ingestions import IngestionStore, delete_ingestion, put_ingestion
from turnstone.store.memory.insertions import VECTORS

log = logging.getLogger(__name__)
OPERATIONS_OF_ONE = 4  # the record, its name, the insertion, the job
BEGUN_AT_ONCE = (MAX_OPERATIONS - 1) // OPERATIONS_OF_ONE
MOST_TRIES = 10
FIRST_DELAY, LONGEST_DELAY = timedelta(seconds=5), timedelta(minutes=10)
CLAIM_MARGIN = timedelta(minutes=3)  # for the last part of a run
LATE_PAYLOADS = timedelta(minutes=2)
AT_ONCE_WITHIN = timedelta(seconds=20)
MOST_BYTES_AT_ONCE = 1024 * 1024
INTERRUPTED = f"the ingestion was interrupted {MOST_TRIES} times; divide the document, or insert it again"


@dataclass(frozen=True, slots=True)
class IngestingDeps:
    """Dependencies of insertions by jobs.

    Attributes:
        files: returns files that the caller may see, in order, or raises NotFound.
        delete_file: deletes a file of the caller.
        is_claiming: whether a run keeps others from its job, where several processes have jobs done.
    """

    banks: Banks
    documents: Documents
    records: DocumentRecords
    runs: IngestRuns
    store: IngestionStore
    job_store: JobStore
    jobs: Callable[[], Jobs]
    files: Callable[[Caller, Sequence[str]], Sequence[StoredFile]]
    delete_file: Callable[[Caller, str], None]
    is_claiming: bool


class Ingesting:
    def __init__(self, deps: IngestingDeps) -> None:
        self._deps = deps
        self._records = deps.records

    def add_file(self, caller: Caller, bank_id: str, new: NewDocument, attempt: Attempt) -> Document:
        """Have a file inserted. Returns and raises as `add_files` does."""
        (document,) = self.add_files(caller, bank_id, [new], attempt)
        return document

    def add_files(
        self, caller: Caller, bank_id: str, news: Sequence[NewDocument], attempt: Attempt, *, is_waiting: bool = False
    ) -> tuple[Document, ...]:
        """Have files inserted, each a document of its own that is durable when this returns.

        A document replaces the one of its id when it is complete; the same file again changes its attributes alone.
        Of several with one id the last counts.

        Args:
            news: each with its `file_id`; type, size and name are those of the file.
            is_waiting: whether insertions of small files end before this returns, where the process does jobs itself.

        Raises:
            NotFound: no such bank or file. No document is begun.
            InvalidRequest: the bank has no texts.
            IdempotencyMismatch: the request's key was used for another body.
        """
        stored = self._searched(caller, bank_id)
        ref, contents = BankRef(caller.tenant, stored.content_id, bank_id), self._records.contents
        newest = {new.document_id: new for new in news}
        if contents.is_repeated(ref, attempt, self._records.clock.now()):
            return tuple(self._records.existing(ref, new.document_id).document for new in news)
        described = self._described(caller, list(newest.values()))
        self._deps.banks.touch(caller.tenant, [stored])
        added: dict[str, Document] = {}
        last, own = None, list[Job]()
        is_waiting = is_waiting and not self._deps.is_claiming
        adding = Adding(caller, ref, until=self._records.clock.now() + AT_ONCE_WITHIN if is_waiting else None)
        for begin in range(0, len(described), BEGUN_AT_ONCE):
            documents, last = self._begun(adding, described[begin : begin + BEGUN_AT_ONCE], last, own)
            added |= documents
        for new in described:
            document = added[new.document_id]
            attributes = document.attributes if document.next_attributes is None else document.next_attributes
            if attributes != new.attributes:
                described_now = self._deps.documents.describe_insertion(
                    caller, bank_id, new.document_id, new.attributes, document.insertion_id
                )
                added[new.document_id] = described_now or document
        contents.complete(ref, attempt, self._records.clock.now())
        if adding.until is not None:
            self._run_now(own, adding.until)
            added |= {name: found.document for name, found in self._records.found(ref, list(added)).items()}
        return tuple(added[new.document_id] for new in news)

    def replace(self, caller: Caller, bank_id: str, new: NewDocument, before: Document | None) -> Document:
        """Have a file inserted in place of the document as it was read, whose own file is then deleted.

        Raises:
            Outdated: the document has changed since.
            NotFound, InvalidRequest: as `add_files` does.
        """
        stored = self._searched(caller, bank_id)
        adding = Adding(
            caller, BankRef(caller.tenant, stored.content_id, bank_id), before.insertion_id if before else ""
        )
        self._deps.banks.touch(caller.tenant, [stored])
        added, _ = self._begun(adding, self._described(caller, [new]), None)
        return added[new.document_id]

    def take(self, caller: Caller, bank_id: str, new: NewDocument) -> Document:
        """Have a file inserted that is deleted at the end of its insertion. Raises as `add_files` does."""
        stored = self._searched(caller, bank_id)
        adding = Adding(caller, BankRef(caller.tenant, stored.content_id, bank_id), is_only_use=True)
        added, _ = self._begun(adding, self._described(caller, [new]), None)
        return added[new.document_id]

    def refuse(
        self, caller: Caller, bank_id: str, new: NewDocument, before: Document | None, problem: DocumentProblem
    ) -> None:
        """Record that a document was not ingested, in one write. Raises as `replace` does."""
        stored = self._searched(caller, bank_id)
        ref = BankRef(caller.tenant, stored.content_id, bank_id)
        adding = Adding(caller, ref, before.insertion_id if before else "")

        def act() -> None:
            found = self._records.found(ref, [new.document_id]).get(new.document_id)
            _check_order(adding, found)
            failed = {"status": "failed", "last_error": problem, "next_attributes": None}
            refused = self._records.stored(found, self._records.begun(found, new).model_copy(update=failed))
            writes = update(ref, found, refused.document, refused.state) if found else creation(ref, refused)
            self._records.contents.write(ref, writes)

        until_written(act, on=(Conflict,))

    def ingest(self, job: Job, until: datetime) -> None:
        """Do the insertion of a job, or a part of it until that time. Raises StoreUnavailable: send the job again."""
        ingestion = self._deps.store.find(job)
        if ingestion is None:
            self._deps.job_store.settle(job)
            return
        ref = ref_of(job, ingestion.bank_id)
        try:
            claimed = until_written(lambda: self._claimed(job, ref, ingestion, until), on=(Conflict,))
        except NotFound:  # the bank is deleted, with all that is in it
            self._drop_unused(ingestion)
            self._deps.job_store.settle(job)
            return
        if claimed is not None:
            self._run(*claimed, ref, ingestion, until)

    def _run(self, job: Job, document: Document, ref: BankRef, ingestion: Ingestion, until: datetime) -> None:
        try:
            progress = self._deps.runs.run(ref, ingestion, document, until)
        except NotFound:
            self._drop_unused(ingestion)
            self._deps.job_store.settle(job)
        except RunEnded as ended:
            self._ended(job, ref, ingestion, ended)
        except RunPostponed as postponed:
            self._postponed(job, ref, ingestion, postponed, document.progress or IngestProgress())
        else:
            self._settle(job, ref, ingestion, has_pages=progress.chunks is not None)

    def _searched(self, caller: Caller, bank_id: str) -> StoredBank:
        """Return a bank of chunks. Raises NotFound, InvalidRequest."""
        stored = self._deps.banks.visible(caller, bank_id)
        if stored.bank.kind not in SEARCHED:
            problem = f"{bank_id!r} is a {stored.bank.kind} bank, which takes no files; insert texts as its documents"
            raise InvalidRequest(problem)
        return stored

    def _described(self, caller: Caller, news: Sequence[NewDocument]) -> list[NewDocument]:
        """Return the documents with type, size and name of their files. Raises NotFound."""
        files = self._deps.files(caller, [new.file_id or "" for new in news])
        return [
            new._replace(mime_type=file.media_type, size_bytes=file.size_bytes, filename=file.filename)
            for new, file in zip(news, files, strict=True)
        ]

    def _begun(
        self, adding: Adding, news: Sequence[NewDocument], last: str | None, own: list[Job] | None = None
    ) -> tuple[dict[str, Document], str | None]:
        """Begin insertions in one write, apart from those that change nothing; return the newest order key, too.

        Args:
            own: receives the jobs that the request does itself.
        """

        def act() -> tuple[dict[str, Document], list[Job], str | None]:
            found = self._records.found(adding.ref, [new.document_id for new in news])
            operations: list[Operation] = []
            documents: dict[str, Document] = {}
            jobs, newest = [], last
            for new in news:
                before = found.get(new.document_id)
                _check_order(adding, before)
                if before is not None and _is_same(before.document, new):
                    documents[new.document_id] = before.document
                    continue
                stored = self._records.stored(before, self._records.begun(before, new), newest)
                newest = newest if before else stored.order
                documents[new.document_id] = stored.document
                writes, job = self._writes_of(adding, stored, before)
                operations += writes
                jobs.append(job)
            if operations:
                self._records.contents.write(adding.ref, operations)
            return documents, jobs, newest

        documents, jobs, newest = until_written(act, on=(Conflict,))
        if own is not None:
            own += [job for job in jobs if job.due_at == adding.until]
        if left := [job for job in jobs if job.due_at != adding.until]:
            sent(self._deps.jobs(), *left)
        return documents, newest

    def _run_now(self, own: Sequence[Job], until: datetime) -> None:
        """Run the jobs until that time, at which the others are due; a failure leaves its job to that run, too."""
        for job in own:
            run = guarded(partial(self.ingest, job, until)) if self._records.clock.now() < until else None
            if not isinstance(run, Returned):
                sent(self._deps.jobs(), job)
            if isinstance(run, Raised):
                unexpected = None if isinstance(run.error, StoreUnavailable) else run.error
                log.warning("insertion %s is left to its job: %s", job.name, run.error, exc_info=unexpected)

    def _writes_of(
        self, adding: Adding, stored: StoredDocument, before: StoredDocument | None
    ) -> tuple[list[Operation], Job]:
        document, now = stored.document, self._records.clock.now()
        is_copy = before is not None and bool(before.document.source_version)
        replaced = before.document.file_id if before and is_copy and adding.after is not None else None
        unused = document.file_id if adding.is_only_use else replaced
        ingestion = Ingestion(
            bank_id=adding.ref.bank_id,
            document_id=document.document_id,
            insertion_id=document.insertion_id,
            file_id=document.file_id or "",
            caller=adding.caller,
            replaced_file_id=unused or "",
        )
        job = Job(
            kind="ingest_document",
            tenant=adding.ref.tenant,
            order=adding.ref.content_id,
            name=document.insertion_id,
            since=now,
            due_at=adding.until if adding.until and document.size_bytes <= MOST_BYTES_AT_ONCE else now,
        )
        ref = adding.ref
        writes = update(ref, before, document, stored.state) if before else creation(ref, stored)
        return [*writes, put_ingestion(ref, ingestion), put_job(job)], job

    def _claimed(self, job: Job, ref: BankRef, ingestion: Ingestion, until: datetime) -> tuple[Job, Document] | None:
        """Count a run of the job; return its job and the document, None where nothing is left to do.

        Raises:
            Conflict: the document has changed just now.
            NotFound: the bank was deleted.
        """
        found = self._records.found(ref, [ingestion.document_id]).get(ingestion.document_id)
        if found is None or (found.document.insertion_id, found.document.status) != (
            ingestion.insertion_id,
            "in_progress",
        ):
            self._settle(job, ref, ingestion, has_pages=True)
            return None
        progress = found.document.progress or IngestProgress()
        if progress.tries >= MOST_TRIES:
            self._ended(job, ref, ingestion, RunEnded("server_error", INTERRUPTED))
            return None
        tried = progress.model_copy(update={"tries": progress.tries + 1})
        document = found.document.model_copy(update={"progress": tried})
        writes = update(ref, found, document, self._records.ids.new_id())
        if not self._deps.is_claiming:
            self._records.contents.write(ref, writes)
            return job, document
        claim = later(job, until + CLAIM_MARGIN)
        if not self._deps.job_store.settle(job, *writes, put_job(claim)):
            return None
        sent(self._deps.jobs(), claim)
        return claim, document

    def _ended(self, job: Job, ref: BankRef, ingestion: Ingestion, ended: RunEnded) -> None:
        """Record that the document failed, and end the job."""
        problem = DocumentProblem(code=ended.code, message=str(ended))
        with suppress(NotFound):
            if self._deps.documents.fail(ref, ingestion.document_id, ingestion.insertion_id, problem):
                log.info("document of insertion %s not ingested: %s", ingestion.insertion_id, ended.code)
        self._settle(job, ref, ingestion, has_pages=True)

    def _postponed(
        self, job: Job, ref: BankRef, ingestion: Ingestion, postponed: RunPostponed, progress: IngestProgress
    ) -> None:
        """Have the job run again, or end it after too many failures."""
        if postponed.is_failure and progress.tries >= MOST_TRIES:
            self._ended(job, ref, ingestion, RunEnded("server_error", str(postponed)))
            return
        at = self._records.clock.now()
        if postponed.is_failure:
            self._note_problem(ref, ingestion, str(postponed))
            delay = min(FIRST_DELAY * 2 ** max(progress.tries - 1, 0), LONGEST_DELAY)
            cause = type(postponed.__cause__).__name__
            log.warning("insertion %s continues in %s, after %s", ingestion.insertion_id, delay, cause)
            at += delay
        again = later(job, at) if job.due_at <= at else job.again_at(at)
        if self._deps.job_store.settle(job, put_job(again)):
            sent(self._deps.jobs(), again)

    def _note_problem(self, ref: BankRef, ingestion: Ingestion, message: str) -> None:
        """Show the reason why an insertion is not completed yet; the next run that ends removes it."""
        problem = DocumentProblem(code="server_error", message=message)

        def act() -> None:
            found = self._records.found(ref, [ingestion.document_id]).get(ingestion.document_id)
            if found is None or found.document.insertion_id != ingestion.insertion_id:
                return
            if found.document.status == "in_progress" and found.document.last_error != problem:
                noted = found.document.model_copy(update={"last_error": problem})
                self._records.contents.write(ref, update(ref, found, noted, self._records.ids.new_id()))

        with suppress(NotFound, StoreUnavailable):  # for readers only: the insertion continues without it
            until_written(act, on=(Conflict,))

    def _drop_unused(self, ingestion: Ingestion) -> None:
        """Delete the file that the insertion was the only use of, if there is one."""
        if ingestion.replaced_file_id:
            with suppress(NotFound, Forbidden):
                self._deps.delete_file(ingestion.caller, ingestion.replaced_file_id)

    def _settle(self, job: Job, ref: BankRef, ingestion: Ingestion, *, has_pages: bool) -> None:
        """End the job of an insertion that has ended, and have its leftovers removed."""
        self._drop_unused(ingestion)
        writes: list[Operation] = [delete_ingestion(ref, ingestion.insertion_id)]
        now = self._records.clock.now()
        name = f"{VECTORS}:{ingestion.insertion_id}"
        cleaning = Job(
            kind="clean_insertion",
            tenant=ref.tenant,
            order=ref.content_id,
            name=name,
            since=now,
            due_at=now + LATE_PAYLOADS,
        )
        if has_pages:
            writes.append(put_job(cleaning))
        if self._deps.job_store.settle(job, *writes) and has_pages:
            sent(self._deps.jobs(), cleaning)


def _check_order(adding: Adding, before: StoredDocument | None) -> None:
    """Raise Outdated if the document is not the one that may be replaced."""
    if adding.after is not None and (before.document.insertion_id if before else "") != adding.after:
        raise Outdated


def _is_same(document: Document, new: NewDocument) -> bool:
    """Return whether the insertion would change nothing, of its attributes apart."""
    if document.status not in ("completed", "in_progress"):
        return False
    return (document.file_id, document.chunking) == (new.file_id, new.chunking)
