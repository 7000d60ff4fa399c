"""Remove payloads without a record: leftovers of replaced records, refused writes and killed processes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Protocol

from turnstone.store.layout.payloads import payload_in

log = logging.getLogger(__name__)
ROWS_AT_ONCE = 10_000
PAYLOADS_AT_ONCE = 1_000
PARTS_AT_ONCE = 20


class PointerSource(Protocol):
    """The records of a store, in storage order."""

    def pointers(self, after: int, limit: int) -> tuple[Sequence[bytes], int | None]:
        """Return the payload references of the next `limit` records, and the next position, None at the end."""


class PayloadSource(Protocol):
    """The payloads of a store."""

    def older_than(self, age_s: float) -> Iterator[str]:
        """Yield the names of payloads stored at least `seconds` ago."""

    def delete(self, name: str) -> None:
        """Delete the payload; a missing payload is no error."""


class PayloadSweep:
    """Removes payloads that no record references, in bounded parts per run.

    A pass collects the payloads referenced by records, then reads the payloads older than the grace. The first pass to
    begin a whole grace after a payload was found unreferenced removes it. That spares payloads of writes in progress,
    which are stored before their records, and copies of the data that take records first.
    """

    def __init__(
        self,
        records: PointerSource,
        payloads: PayloadSource,
        grace_s: float,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records = records
        self._payloads = payloads
        self._grace_s = grace_s
        self._monotonic_s = monotonic_s
        self._unnamed_since: dict[str, float] = {}
        self._pass: Iterator[int] | None = None

    def run(self) -> int:
        """Run the next part of a pass, and return the number of removed payloads.

        Raises:
            StoreUnavailable: the next run starts a new pass.
        """
        going_on, self._pass = self._pass or self._parts(), None
        removed = list(islice(going_on, PARTS_AT_ONCE))
        if len(removed) == PARTS_AT_ONCE:
            self._pass = going_on
        if sum(removed):
            log.info("removed %d payloads without a record", sum(removed))
        return sum(removed)

    def _parts(self) -> Iterator[int]:
        """Run a pass; yield the number of removed payloads after each part."""
        began_s = self._monotonic_s()
        named: set[str] = set()
        after: int | None = 0
        while after is not None:
            pointers, after = self._records.pointers(after, ROWS_AT_ONCE)
            named.update(payload.name for payload in map(payload_in, pointers) if payload is not None)
            yield 0
        payloads = self._payloads.older_than(self._grace_s)
        unnamed_since: dict[str, float] = {}
        while names := list(islice(payloads, PAYLOADS_AT_ONCE)):
            unnamed_since |= {name: self._unnamed_since.get(name, began_s) for name in names if name not in named}
            due = [name for name in names if began_s - unnamed_since.get(name, began_s) >= self._grace_s]
            for name in due:
                self._payloads.delete(name)
                del unnamed_since[name]
            yield len(due)
        self._unnamed_since = unnamed_since
