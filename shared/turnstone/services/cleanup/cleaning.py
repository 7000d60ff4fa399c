"""Jobs: remove the records of deleted agents, sessions, completions, banks and files, end expired ones, ingest files.

A job's record is the truth, its message only a hint. A run does a bounded part and then ends the record, or replaces it
by one with the time of the next run; both only if the record is still the one of the message. So a job that is sent
twice, or dies anywhere, is still done, and its number of runs does not grow.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from turnstone.domain.errors import Conflict
from turnstone.domain.jobs import Job, JobKind
from turnstone.domain.memory.banks import BankRef
from turnstone.ports.records import MAX_OPERATIONS, Key
from turnstone.ports.supervision import Jobs
from turnstone.ports.system import Clock
from turnstone.store.agents.agents import AgentStore
from turnstone.store.cleanup.jobs import JobStore, later, put_job, sent
from turnstone.store.files.contents import ContentRef, FileContents, removed
from turnstone.store.memory.banks import BankStore, cleaning_of, removal
from turnstone.store.memory.contents import BankContents, Unlisted
from turnstone.store.memory.insertions import InsertionStore
from turnstone.store.models.stored_completions import StoredCompletionStore
from turnstone.store.sessions.sessions import SessionStore, job_of

log = logging.getLogger(__name__)
RECORDS_AT_ONCE = 500
SESSIONS_AT_ONCE = MAX_OPERATIONS // 3
# longest time between storing a payload and the refusal of its record
LATE_PAYLOADS = timedelta(minutes=2)
RECHECK_AFTER = timedelta(minutes=5)
SENT_AGAIN_AFTER = timedelta(minutes=5)
SENT_ONCE_IN = timedelta(hours=1)
DUE_AT_ONCE = 1_000
Act = Callable[[Job, datetime], None]


class CleanedStores(NamedTuple):
    """The stores that clean-up jobs clear."""

    sessions: SessionStore
    agents: AgentStore
    completions: StoredCompletionStore
    banks: BankStore
    contents: BankContents
    insertions: InsertionStore
    files: FileContents


class Cleaning:
    def __init__(
        self,
        store: JobStore,
        stores: CleanedStores,
        jobs: Jobs,
        clock: Clock,
        others: Mapping[JobKind, Act] = MappingProxyType({}),
    ) -> None:
        """Take the acts for jobs of other kinds: each does a part of a job, and more until a time."""
        self._store = store
        self._stores = stores
        self._jobs = jobs
        self._clock = clock
        self._sent: dict[str, Key] = {}
        self._sent_until = datetime.min.replace(tzinfo=UTC)
        self._acts: Mapping[JobKind, Act] = {
            **others,
            "clean_agent": self._clean_agent,
            "clean_bank": self._clean_bank,
            "clean_completion": self._clean_completion,
            "clean_file": self._clean_file,
            "clean_insertion": self._clean_insertion,
            "clean_segments": self._clean_segments,
            "clean_session": self._clean_session,
            "end_bank": self._end_bank,
            "end_session": self._end_session,
        }

    def run(self, job: Job, until: datetime) -> None:
        """Do a part of the job, and more until that time. Raises StoreUnavailable: send the job again."""
        if not self._store.is_open(job):
            return  # done, or rescheduled
        self._acts[job.kind](job, until)

    def send_due(self) -> int:
        """Resend the jobs that were due some minutes ago; return how many. Raises StoreUnavailable."""
        return self._send_behind({}, None)

    def send_newly_due(self, until: datetime) -> int:
        """Send jobs as `send_due` does, until that time at most; return how many. Raises StoreUnavailable.

        Skips for an hour a job that an earlier call sent, or a backlog would be sent again each time.
        """
        now = self._clock.now()
        if now >= self._sent_until:
            self._sent.clear()
            self._sent_until = now + SENT_ONCE_IN
        return self._send_behind(self._sent, until)

    def due(self, is_chosen: Callable[[JobKind], bool] = lambda _: True) -> tuple[Job, ...]:
        """Return at most `DUE_AT_ONCE` jobs of the chosen kinds that are due now. Raises StoreUnavailable."""
        due = self._store.due(self._clock.now())
        return tuple(islice((job for job in due if is_chosen(job.kind)), DUE_AT_ONCE))

    def run_for(self, job: Job, duration: timedelta) -> None:
        """Do the job for that long at most. Raises as `run` does."""
        self.run(job, self._clock.now() + duration)

    def _send_behind(self, sent_keys: dict[str, Key], until: datetime | None) -> int:
        """Send the due jobs after these keys of the shards, and move the keys."""
        count = 0
        for page in self._store.due_in_turns(self._clock.now() - SENT_AGAIN_AFTER, sent_keys):
            self._jobs.send_all(page.jobs)
            sent_keys[page.shard] = page.last
            count += len(page.jobs)
            if until is not None and self._clock.now() >= until:
                break
        return count

    def _clean_session(self, job: Job, until: datetime) -> None:
        if not self._try_clear(partial(self._stores.sessions.clear, job, RECORDS_AT_ONCE), job, until):
            return
        cleaning = self._stores.banks.delete_of_session(job.session_ref, self._clock.now())
        if cleaning is not None:
            sent(self._jobs, cleaning)
        self._finish(job)

    def _clean_agent(self, job: Job, until: datetime) -> None:
        while parted := self._stores.sessions.part_with(job, SESSIONS_AT_ONCE, self._clock.now()):
            sent(self._jobs, *parted)
            if self._clock.now() >= until:
                self._reschedule(job, self._clock.now())
                return
        cleaning = self._stores.banks.delete_of_agent(job.tenant, job.agent_id, self._clock.now())
        if cleaning is not None:
            sent(self._jobs, cleaning)
        while not self._stores.agents.clear(job, RECORDS_AT_ONCE):
            pass
        self._finish(job)

    def _clean_completion(self, job: Job, _until: datetime) -> None:
        while not self._stores.completions.clear(job, RECORDS_AT_ONCE):
            pass
        self._finish(job)

    def _clean_bank(self, job: Job, until: datetime) -> None:
        self._clean(partial(self._stores.banks.clear, job, RECORDS_AT_ONCE), job, until)

    def _clean_segments(self, job: Job, until: datetime) -> None:
        """Remove segments that are no longer listed, or never were."""
        ref, left = BankRef(job.tenant, job.order, job.order), Unlisted.SOME
        while left is Unlisted.SOME:
            now = self._clock.now()
            if now >= until:
                self._reschedule(job, now)
                return
            left = self._stores.contents.clear_unlisted(ref, now - LATE_PAYLOADS, RECORDS_AT_ONCE)
        if left is Unlisted.YOUNG:
            self._reschedule(job, self._clock.now() + LATE_PAYLOADS)
        else:
            self._store.settle(job)

    def _clean_insertion(self, job: Job, until: datetime) -> None:
        """Remove content of a bank's document that counts no more, if so, or never did."""
        if self._try_clear(partial(self._stores.insertions.clear, job, RECORDS_AT_ONCE), job, until):
            self._store.settle(job)

    def _clean_file(self, job: Job, until: datetime) -> None:
        """Remove a cancelled or deleted content; end one that has expired; remove unused parts of any other."""
        ref, now = ContentRef(job.tenant, job.order), self._clock.now()
        header = self._stores.files.header(ref)
        if header is None:
            self._clean(partial(self._stores.files.clear, ref, RECORDS_AT_ONCE), job, until)
        elif header.is_over(now):
            # from now on, because a piece may be under way
            clearing = later(job, now).model_copy(update={"since": now})
            try:
                is_ours = self._store.settle(job, *removed(ref, header), put_job(clearing))
            except Conflict:
                self._reschedule(job, now)  # it became whole just now: run again
                return
            if is_ours:
                sent(self._jobs, clearing)
        elif header.is_whole:
            self._stores.files.clear_unlisted(ref, header)
            self._store.settle(job)
        else:
            self._reschedule(job, header.ends_at or now)

    def _clean(self, clear: Callable[[], bool], job: Job, until: datetime) -> None:
        """Remove all of something deleted, until that time, and finish its job."""
        if self._try_clear(clear, job, until):
            self._finish(job)

    def _try_clear(self, clear: Callable[[], bool], job: Job, until: datetime) -> bool:
        """Remove part after part; at that time run the job again later. Return whether nothing is left."""
        while not clear():
            if self._clock.now() >= until:
                self._reschedule(job, self._clock.now())
                return False
        return True

    def _finish(self, job: Job) -> None:
        """End the job, but only after a run at which no payload can come late any more."""
        if self._clock.now() < job.since + LATE_PAYLOADS:
            self._reschedule(job, job.since + LATE_PAYLOADS)
        elif self._store.settle(job):
            log.info("cleaned up after the deletion of %s", _named(job))

    def _end_session(self, job: Job, _until: datetime) -> None:
        ref, now = job.session_ref, self._clock.now()
        session = self._stores.sessions.header(ref)
        if session is None or session.ends_at is None:
            self._store.settle(job)
            return
        if not session.is_over(now):
            self._reschedule(job, session.ends_at if now < session.ends_at else now + RECHECK_AFTER)
            return
        cleaning = job_of("clean_session", ref, session, now)
        try:
            is_ours = self._store.settle(job, *self._stores.sessions.removal(ref, session), put_job(cleaning))
        except Conflict:
            self._reschedule(job, now)  # it changed just now: run again
            return
        if is_ours:
            sent(self._jobs, cleaning)

    def _end_bank(self, job: Job, _until: datetime) -> None:
        """Remove a bank that was not used for long enough, unless another job does that since its expiry changed."""
        stored, now = self._stores.banks.find(job.tenant, job.name), self._clock.now()
        is_ours = stored is not None and (stored.content_id, stored.expiry) == (job.order, job.since.isoformat())
        if stored is None or not is_ours or stored.ends_at is None:
            self._store.settle(job)
            return
        if not stored.is_over(now):
            self._reschedule(job, stored.ends_at)
            return
        cleaning = cleaning_of(job.tenant, stored, now)
        try:
            is_ended = self._store.settle(job, *removal(job.tenant, stored, if_unused=True), put_job(cleaning))
        except Conflict:
            self._reschedule(job, now)  # it was used just now: run again
            return
        if is_ended:
            sent(self._jobs, cleaning)

    def _reschedule(self, job: Job, at: datetime) -> None:
        """Replace the job by one that runs at that time."""
        next_one = later(job, at)
        if self._store.settle(job, put_job(next_one)):
            sent(self._jobs, next_one)


def _named(job: Job) -> str:
    if job.kind == "clean_completion":
        return f"chat completion {job.order}"
    if job.kind == "clean_bank":
        return f"the memory bank with content {job.order}"
    if job.kind == "clean_file":
        return f"the file with content {job.order}"
    return f"{job.session_id or 'all sessions'} of agent {job.agent_id}"
