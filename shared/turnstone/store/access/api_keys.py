"""API keys in the store: each under its hash, and in the list of its tenant. Both are always written together."""

import logging
from collections.abc import Iterator
from datetime import datetime

from turnstone.domain.access.api_keys import ApiKey
from turnstone.domain.errors import Conflict, NotFound, RecordTooNew, StoreUnavailable
from turnstone.ports.records import Absent, Condition, Operation, Put, Range, Record, RevIs
from turnstone.ports.storage import RangeStore
from turnstone.store.layout.frames import frame, private_part, wire_part
from turnstone.store.layout.keys import api_key_key, api_key_list, api_key_list_key
from turnstone.store.layout.newer_records import readable
from turnstone.store.layout.ranges import pages

log = logging.getLogger(__name__)


class ApiKeyStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def create(self, key: ApiKey, hashed: str) -> None:
        """Store a new key under the hash of its token."""
        self._store.write(_writes(key, hashed, Absent()))

    def find(self, hashed: str) -> ApiKey | None:
        """Return the key whose token has this hash, None without one."""
        record = self._store.get(api_key_key(hashed))
        return None if record is None else _key_in(record)

    def list(self, tenant: str) -> Iterator[ApiKey]:
        """Yield the keys of a tenant, the oldest first, without those too new to read."""
        for page in pages(self._store, Range(api_key_list(tenant))):
            for record in page.records:
                try:
                    yield _key_in(record)
                except RecordTooNew as newer:
                    log.warning("left out of the list: %s", newer)

    def revoke(self, tenant: str, key_id: str, now: datetime) -> ApiKey:
        """Store that the key is revoked, and return it in that state. Raises NotFound."""
        record = self._listed(tenant, key_id)
        revoked = _key_in(record).model_copy(update={"revoked_at": now})
        if _key_in(record).revoked_at is not None:
            return _key_in(record)
        try:
            self._store.write(_writes(revoked, private_part(record.body)["hash"], RevIs(record.rev)))
        except Conflict as conflict:
            found = _key_in(self._listed(tenant, key_id))
            if found.revoked_at is None:
                raise StoreUnavailable("the key is being changed elsewhere, try again") from conflict
            return found
        return revoked

    def _listed(self, tenant: str, key_id: str) -> Record:
        record = self._store.get(api_key_list_key(tenant, key_id))
        if record is None:
            raise NotFound("API key", key_id)
        return record


def _writes(key: ApiKey, hashed: str, when: Condition) -> list[Operation]:
    wire = key.model_dump_json().encode()
    return [
        Put(api_key_key(hashed), frame({}, wire), when=(when,)),
        Put(api_key_list_key(key.caller.tenant, key.key_id), frame({"hash": hashed}, wire), when=(when,)),
    ]


def _key_in(record: Record) -> ApiKey:
    """Return the record's key. Raises RecordTooNew: keys are read without the store that checks formats."""
    return ApiKey.model_validate_json(wire_part(readable(record).body))
