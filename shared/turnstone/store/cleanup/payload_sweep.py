"""Payloads that no record names: what replaced records, refused writes and killed processes leave behind."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Protocol

from turnstone.store.layout.oversize import payload_in

log = logging.getLogger(__name__)
ROWS_AT_ONCE = 10_000
PAYLOADS_AT_ONCE = 1_000
PARTS_AT_ONCE = 20


class PointerSource(Protocol):
    """The records of a store, in the order they are kept in."""

    def pointers(self, after: int, limit: int) -> tuple[Sequence[bytes], int | None]:
        """Return what the next `limit` records hold in place of a payload, and where to continue, None at the end."""


class PayloadSource(Protocol):
    """The payloads of a store."""

    def older_than(self, age_s: float) -> Iterator[str]:
        """Yield the names of payloads that were stored at least so many seconds ago."""

    def delete(self, name: str) -> None:
        """Remove the payload; nothing happens if there is none."""


class PayloadSweep:
    """Removes payloads that no record names, with a bounded part of the work at each run.

    A pass notes which payloads the records name, then looks at the payloads that are older than the grace. One that no
    record names is removed by the first pass that begins a whole grace after it was first found so. That spares what is
    being written, because a payload is stored before its record; and a copy of the data that takes records first.
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
        """Do the next part of a pass, and return how many payloads were removed.

        Raises:
            StoreUnavailable: the next run begins a new pass.
        """
        going_on, self._pass = self._pass or self._parts(), None
        removed = list(islice(going_on, PARTS_AT_ONCE))
        if len(removed) == PARTS_AT_ONCE:
            self._pass = going_on
        if sum(removed):
            log.info("removed %d payloads that no record names", sum(removed))
        return sum(removed)

    def _parts(self) -> Iterator[int]:
        """Do a pass; yield after each part how many payloads it removed."""
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
