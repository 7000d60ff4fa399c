"""Files of sources, and the jobs that insert them: an upload is stored, then inserted by a job, then removed.

The entry of a job is written before its document, which has the state, so a repeated request finds it; one without a
document is not shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING

from turnstone.domain.access.access import owner_of
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import InvalidRequest, NotFound
from turnstone.domain.letta.sources import (
    JOB_KIND,
    JobQuery,
    LettaJob,
    ListedJob,
    NewSourceFile,
    SourceQuery,
    job_order_in,
    stored_name,
)
from turnstone.domain.memory.banks import BankRef
from turnstone.domain.memory.documents import Document, DocumentQuery, NewDocument
from turnstone.domain.turns.attempts import Attempt
from turnstone.services.memory.turns.lending import caller_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnstone.domain.memory.banks import Bank
    from turnstone.ports.system import Clock, IdGenerator
    from turnstone.services.access.access import AccessRules
    from turnstone.services.files.files import Files
    from turnstone.services.letta.sources import Sources
    from turnstone.services.memory.documents.document_records import DocumentRecords
    from turnstone.services.memory.documents.documents import Documents
    from turnstone.services.memory.documents.ingesting import Ingesting
    from turnstone.store.letta.jobs import LettaJobStore
    from turnstone.store.memory.bank_reads import BankReads

FILE_KIND = "file"
PURPOSE = "assistants"
FILE_LIVES_S = 86_400  # of a file whose insertion never began; a begun one removes its file
MOST_SCANNED = 1_000
AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class SourceFileDeps:
    """Dependencies of files of sources.

    Attributes:
        files: returns the service of files, which only an upload needs.
        ingesting: returns the insertion by jobs, likewise.
        kept_for_s: how long a job stays in the list.
    """

    sources: Sources
    documents: Documents
    records: DocumentRecords
    reads: BankReads
    jobs: LettaJobStore
    files: Callable[[], Files]
    ingesting: Callable[[], Ingesting]
    rules: AccessRules
    clock: Clock
    ids: IdGenerator
    kept_for_s: float


class SourceFiles:
    def __init__(self, deps: SourceFileDeps) -> None:
        self._deps = deps

    def upload(self, caller: Caller, source_id: str, sent: NewSourceFile, attempt: Attempt) -> LettaJob:
        """Store a file, and have it inserted; return the job, or that of an earlier attempt.

        Raises:
            NotFound: no such source, or the file of an earlier attempt is deleted.
            IdempotencyMismatch: the request's key was used for another body.
        """
        stored = self._deps.sources.visible(caller, source_id)
        listed = self._deps.jobs.remembered(caller.tenant, attempt, self._deps.clock.now())
        if listed is None:
            of_file = attempt if attempt.key is None else attempt.model_copy(update={"key": f"{attempt.key}-file"})
            name = stored_name(sent.filename, self._deps.ids.new_id())
            files = self._deps.files()
            file = files.create(caller, name, sent.media_type, PURPOSE, sent.parts, FILE_LIVES_S, of_file)
            now = self._deps.clock.now()
            job = ListedJob(
                order=file.file_id.removeprefix(f"{FILE_KIND}-"),
                source_id=source_id,
                file_id=file.file_id,
                created_at=now,
                ends_at=now + timedelta(seconds=self._deps.kept_for_s),
                stamp=owner_of(caller),
            )
            listed = self._deps.jobs.create(caller.tenant, job, attempt)
        ref = BankRef(caller.tenant, stored.content_id, source_id)
        found = self._deps.records.found(ref, [listed.file_id]).get(listed.file_id)
        if found is not None:
            return LettaJob(listed, found.document)
        new = NewDocument(listed.file_id, file_id=listed.file_id)
        return LettaJob(listed, self._deps.ingesting().take(caller, listed.source_id, new))

    def list(self, caller: Caller, source_id: str, query: SourceQuery) -> tuple[Bank, tuple[Document, ...]]:
        """Return the source and the part of its files, oldest first. Raises NotFound, also for an unknown `after`."""
        bank = self._deps.sources.get(caller, source_id)
        try:
            page = self._deps.documents.list(caller, source_id, DocumentQuery(query.limit, after=query.after))
        except InvalidRequest as problem:
            raise NotFound(FILE_KIND, str(query.after)) from problem
        return bank, page.documents

    def delete(self, caller: Caller, source_id: str, file_id: str) -> None:
        """Remove the file with its passages. Raises NotFound."""
        self._deps.sources.visible(caller, source_id)
        try:
            self._deps.documents.drop(caller, source_id, file_id)
        except NotFound as missing:
            raise NotFound(FILE_KIND, file_id) from missing

    def job(self, caller: Caller, text: str) -> LettaJob:
        """Return the job of that id. Raises NotFound."""
        job = self._found(caller.tenant, text)
        self._deps.rules.check_sight(caller, job.listed.stamp, JOB_KIND, text)
        return job

    def list_jobs(self, caller: Caller, query: JobQuery) -> Iterator[LettaJob]:
        """Yield the requested jobs that the caller may see, newest first, among the newest of the tenant."""
        now = self._deps.clock.now()
        entries = islice(self._deps.jobs.newest(caller.tenant, query.limit), MOST_SCANNED)
        shown = (
            each
            for each in entries
            if query.source_id in (None, each.source_id)
            and each.ends_at > now
            and self._deps.rules.may_see(caller, each.stamp)
        )
        found = self._with_documents(caller.tenant, shown, min(query.limit, AT_ONCE))
        active = (job for job in found if not query.is_active or job.document.status == "in_progress")
        return islice(active, query.limit)

    def delete_job(self, caller: Caller, text: str) -> LettaJob:
        """Return the job as it ended, removed from the list; one that has not ended is cancelled.

        Raises NotFound, Forbidden.
        """
        job = self._found(caller.tenant, text)
        listed = job.listed
        self._deps.rules.check_deletion(caller, listed.stamp, JOB_KIND, text)
        if job.document.status == "in_progress":
            with suppress(NotFound):
                owner = caller_of(caller.tenant, listed.stamp)
                self._deps.documents.cancel(owner, listed.source_id, listed.file_id)
            job = self._found(caller.tenant, text)
        self._deps.jobs.delete(caller.tenant, listed.order)
        return job._replace(is_seen=self._deps.rules.may_see(caller, listed.stamp))

    def _found(self, tenant: str, text: str) -> LettaJob:
        listed = self._deps.jobs.find(tenant, job_order_in(text), self._deps.clock.now())
        job = None if listed is None else next(self._with_documents(tenant, iter([listed]), 1), None)
        if job is None:
            raise NotFound(JOB_KIND, text)
        return job

    def _with_documents(self, tenant: str, jobs: Iterator[ListedJob], at_once: int) -> Iterator[LettaJob]:
        """Yield the jobs with their documents, without those whose source or file is deleted."""
        while some := list(islice(jobs, at_once)):
            banks = self._deps.reads.find(tenant, list(dict.fromkeys(job.source_id for job in some)))
            documents: dict[str, Document] = {}
            for source_id, bank in banks.items():
                ids = [job.file_id for job in some if job.source_id == source_id]
                found = self._deps.records.found(BankRef(tenant, bank.content_id, source_id), ids)
                documents |= {file_id: stored.document for file_id, stored in found.items()}
            yield from (LettaJob(job, documents[job.file_id]) for job in some if job.file_id in documents)
