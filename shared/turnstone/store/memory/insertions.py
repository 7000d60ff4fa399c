"""Content of documents that count no more: edges, and values too long for their records."""

from turnstone.domain.jobs import Job
from turnstone.ports.storage import RangeStore
from turnstone.store.memory.edges import EdgeStore
from turnstone.store.memory.values import LONG, ValueStore


class InsertionStore:
    def __init__(self, store: RangeStore) -> None:
        self._edges = EdgeStore(store)
        self._values = ValueStore(store)

    def clear(self, job: Job, limit: int) -> bool:
        """Remove about that many records of an insertion, unless its content counts.

        Returns:
            Whether nothing is left to do.
        """
        if job.name.startswith(f"{LONG}:"):
            self._values.clear(job)
            return True
        return self._edges.clear(job, limit)
