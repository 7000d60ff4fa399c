"""Content of documents that counts no more: edges, and values too long for their records."""

from turnstone.domain.jobs import Job
from turnstone.ports.storage import RangeStore

LONG_VALUE = "value"  # the beginning of the name of a job that removes one


class InsertionStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def clear(self, job: Job, limit: int) -> bool:
        """Remove about that many records of an insertion, unless its content counts.

        Returns:
            Whether nothing is left to do.
        """
        if job.name.startswith(f"{LONG_VALUE}:"):
            from turnstone.store.memory.values import ValueStore  # rare: other clean-ups start without it

            ValueStore(self._store).clear(job)
            return True
        from turnstone.store.memory.edges import EdgeStore

        return EdgeStore(self._store).clear(job, limit)
