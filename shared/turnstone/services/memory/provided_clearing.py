"""Jobs that remove content of banks from a provider: all of a deleted bank, and insertions that count no more.

A job waits where the provider fails, or has left the operator's file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from turnstone.domain.errors import MemoryProviderError
from turnstone.domain.jobs import Job
from turnstone.domain.memory.banks import BankRef
from turnstone.ports.memory_providers import BankProviders
from turnstone.ports.supervision import Jobs
from turnstone.ports.system import Clock
from turnstone.store.cleanup.jobs import JobStore, later, put_job, sent
from turnstone.store.memory.provided import ProvidedStore

log = logging.getLogger(__name__)
TRIED_AGAIN_AFTER = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class ProvidedClearingDeps:
    store: ProvidedStore
    providers: BankProviders
    job_store: JobStore
    jobs: Jobs
    clock: Clock


class ProvidedClearing:
    def __init__(self, deps: ProvidedClearingDeps) -> None:
        self._deps = deps

    def clear_bank(self, job: Job, _until: datetime) -> None:
        """Remove all content of a deleted bank from the provider that the job names, then its records here by a job."""

        def clear() -> None:
            self._deps.providers.of(job.name).remove(_ref_of(job))

        if self._try_clear(clear, job):
            self._replace(job, job.model_copy(update={"kind": "clean_bank", "name": ""}))

    def clear_batch(self, job: Job, _until: datetime) -> None:
        """Remove the insertions that the batch of the job lists, if any are left."""

        def clear() -> None:
            batch = self._deps.store.take(job)
            if batch is not None:
                self._deps.providers.of(batch.provider_id).drop(_ref_of(job), batch.insertions)
                self._deps.store.clear(job)

        if self._try_clear(clear, job):
            self._deps.job_store.settle(job)

    def _try_clear(self, clear: Callable[[], None], job: Job) -> bool:
        """Return whether the content is removed; if the provider fails, have the job run again later."""
        try:
            clear()
        except MemoryProviderError as failed:
            log.warning("content of a deleted or changed memory bank is not removed yet: %s", failed)
            self._replace(job, later(job, self._deps.clock.now() + TRIED_AGAIN_AFTER))
            return False
        return True

    def _replace(self, job: Job, next_one: Job) -> None:
        if self._deps.job_store.settle(job, put_job(next_one)):
            sent(self._deps.jobs, next_one)


def _ref_of(job: Job) -> BankRef:
    return BankRef(job.tenant, job.order, job.order)
