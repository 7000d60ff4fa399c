"""Reads of banks by their names, with their logs and manifests: one round trip where the names were read before.

The content id of a bank is remembered from earlier reads. It may be out of date, as the bank may have been deleted and
made again; so the bank's record is read next to the content, and a content that is not the record's is discarded.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple

from turnstone.domain.errors import NotFound
from turnstone.domain.memory.banks import BankRef
from turnstone.ports.records import Get
from turnstone.ports.storage import RangeStore
from turnstone.store.keys.banks import bank_key, log_and_manifest
from turnstone.store.layout.ranges import pages
from turnstone.store.memory.banks import StoredBank, stored_in
from turnstone.store.memory.contents import BankContents, View, view_of

MOST_REMEMBERED = 4_096


class OpenedBank(NamedTuple):
    """A bank with the state of its content, read at one time."""

    stored: StoredBank
    ref: BankRef
    view: View


class BankReads:
    def __init__(self, store: RangeStore) -> None:
        self._store = store
        self._contents = BankContents(store)
        self._lock = Lock()
        self._remembered: OrderedDict[tuple[str, str], StoredBank] = OrderedDict()

    def remembered(self, tenant: str, bank_id: str) -> StoredBank | None:
        """Return the bank as this process last read it, None if it never did. Reads nothing from the store."""
        with self._lock:
            return self._remembered.get((tenant, bank_id))

    def find(self, tenant: str, bank_ids: Sequence[str]) -> dict[str, StoredBank]:
        """Return those of the banks that exist, by their names."""
        records, _ = self._store.gather([Get(bank_key(tenant, bank_id)) for bank_id in bank_ids], [])
        read = zip(bank_ids, records, strict=True)
        found = {bank_id: stored_in(record) for bank_id, record in read if record is not None}
        self._remember(tenant, bank_ids, found)
        return found

    def open(self, tenant: str, bank_ids: Sequence[str]) -> dict[str, OpenedBank]:
        """Return those of the banks that exist, by their names, with their content."""
        guesses = {bank_id: stored for bank_id in bank_ids if (stored := self.remembered(tenant, bank_id))}
        ranges = [log_and_manifest(tenant, stored.content_id) for stored in guesses.values()]
        records, firsts = self._store.gather([Get(bank_key(tenant, bank_id)) for bank_id in bank_ids], ranges)
        read = zip(bank_ids, records, strict=True)
        found = {bank_id: stored_in(record) for bank_id, record in read if record is not None}
        self._remember(tenant, bank_ids, found)
        opened: dict[str, OpenedBank] = {}
        for (bank_id, guess), query, first in zip(guesses.items(), ranges, firsts, strict=True):
            stored = found.get(bank_id)
            if stored is None or stored.content_id != guess.content_id:
                continue
            ref = BankRef(tenant, stored.content_id, bank_id)
            try:
                view = view_of(ref, [record for page in pages(self._store, query, first) for record in page.records])
            except NotFound:  # deleted after its record was read
                found.pop(bank_id)
                continue
            opened[bank_id] = OpenedBank(stored, ref, view)
        return {**opened, **self._opened_late(tenant, {name: found[name] for name in found if name not in opened})}

    def _opened_late(self, tenant: str, found: dict[str, StoredBank]) -> dict[str, OpenedBank]:
        """Return the banks whose content was not read next to their records, without those deleted since."""
        refs = [BankRef(tenant, stored.content_id, bank_id) for bank_id, stored in found.items()]
        if not refs:
            return {}
        try:
            views = self._contents.views(refs)
        except NotFound as missing:
            return self._opened_late(tenant, {name: found[name] for name in found if name != missing.identifier})
        return {ref.bank_id: OpenedBank(found[ref.bank_id], ref, view) for ref, view in zip(refs, views, strict=True)}

    def _remember(self, tenant: str, bank_ids: Sequence[str], found: dict[str, StoredBank]) -> None:
        with self._lock:
            for bank_id in bank_ids:
                self._remembered.pop((tenant, bank_id), None)
                if bank_id in found:
                    self._remembered[tenant, bank_id] = found[bank_id]
            while len(self._remembered) > MOST_REMEMBERED:
                self._remembered.popitem(last=False)
