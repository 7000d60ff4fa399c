"""Removal of content that a provider of memory banks has, and that counts no more."""

from __future__ import annotations

from turnstone.domain.jobs import Job
from turnstone.domain.memory.banks import BankRef
from turnstone.ports.memory_providers import BankProviders
from turnstone.store.memory.provided import ProvidedStore


class ProvidedClearing:
    def __init__(self, store: ProvidedStore, providers: BankProviders) -> None:
        self._store = store
        self._providers = providers

    def clear_bank(self, job: Job) -> None:
        """Remove all content of a deleted bank from the provider that the job names. Raises MemoryProviderError."""
        self._providers.of(job.name).remove(_ref_of(job))

    def clear_batch(self, job: Job) -> None:
        """Remove the insertions that the batch of the job lists, if any are left. Raises MemoryProviderError."""
        batch = self._store.take(job)
        if batch is not None:
            self._providers.of(batch.provider_id).drop(_ref_of(job), batch.insertions)
            self._store.clear(job)


def _ref_of(job: Job) -> BankRef:
    return BankRef(job.tenant, job.order, job.order)
