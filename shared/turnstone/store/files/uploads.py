"""Uploads: one record each, which outlives the upload for a day, and the parts under the name of the upload."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from turnstone.domain.errors import Conflict, NotFound
from turnstone.domain.files.stored_files import FileUpload
from turnstone.domain.jobs import Job
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.records import Absent, Condition, Delete, Operation, Put, RevIs
from turnstone.ports.storage import RangeStore
from turnstone.store.cleanup.jobs import put_job
from turnstone.store.files.contents import (
    PENDING,
    ContentClosed,
    ContentRef,
    FileContents,
    StoredPart,
    added,
    begun,
    completed,
)
from turnstone.store.files.files import file_writes
from turnstone.store.keys.files import header_key, upload_key
from turnstone.store.layout.idempotency import Once, answer_in, get_remembered

KIND = "upload"
KEPT_FOR = timedelta(hours=24)
REMEMBERED = "upload"
REMEMBERED_PART = "part_id"


class FoundUpload(NamedTuple):
    """An upload, and the revision of its record."""

    upload: FileUpload
    rev: int


class UploadStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store
        self.contents = FileContents(store)

    def create(self, tenant: str, upload: FileUpload, expiry: Job, attempt: Attempt) -> FileUpload:
        """Store an upload, with the job that cancels it; return it, or that of an earlier attempt.

        Raises IdempotencyMismatch.
        """
        writes = [_put(tenant, upload, Absent()), *begun(ref_of(tenant, upload), expiry)]
        answer = {REMEMBERED: upload.model_dump_json()}
        found = Once(tenant, attempt, answer, upload.created_at).write(self._store, writes)
        return upload if found is answer else FileUpload.model_validate_json(found[REMEMBERED])

    def find(self, tenant: str, upload_id: str) -> FoundUpload:
        """Return the upload, expired or not. Raises NotFound."""
        record = self._store.get(upload_key(tenant, upload_id))
        if record is None:
            raise NotFound(KIND, upload_id)
        return FoundUpload(FileUpload.model_validate_json(record.body), record.rev)

    def remembered_part(self, tenant: str, attempt: Attempt, now: datetime) -> str | None:
        """Return the part of an earlier attempt of the request, None without one. Raises IdempotencyMismatch."""
        if attempt.key is None:
            return None
        (record,), _ = self._store.gather(get_remembered(tenant, attempt), [])
        answer = answer_in(record, attempt, now)
        return answer[REMEMBERED_PART] if answer else None

    def add_part(self, tenant: str, upload: FileUpload, part: StoredPart, attempt: Attempt, now: datetime) -> str:
        """Record a part whose pieces are stored; return its id, or that of an earlier attempt.

        Raises IdempotencyMismatch, ContentClosed.
        """
        once = Once(tenant, attempt, {REMEMBERED_PART: part.part_id}, now)
        try:
            return once.write(self._store, added(ref_of(tenant, upload), part))[REMEMBERED_PART]
        except Conflict as conflict:
            raise ContentClosed from conflict

    def complete(self, tenant: str, found: FoundUpload, upload: FileUpload, parts: Sequence[StoredPart]) -> bool:
        """Store the upload as completed, and its file; return False if it has changed since it was found."""
        file = upload.file
        if file is None:
            raise ValueError("a completed upload has a file")
        whole = completed(ref_of(tenant, upload), file.file_id, file.expires_at, parts)
        return self._changed([_put(tenant, upload, RevIs(found.rev)), whole, *file_writes(tenant, file)])

    def cancel(self, tenant: str, found: FoundUpload, upload: FileUpload, cleaning: Job) -> bool:
        """Store the upload as cancelled, with the job that removes its parts.

        Returns:
            Whether it was done: not if the upload has changed since it was found.
        """
        header = Delete(header_key(*ref_of(tenant, upload)[:2]), (PENDING,))
        return self._changed([_put(tenant, upload, RevIs(found.rev)), header, put_job(cleaning)])

    def _changed(self, writes: Sequence[Operation]) -> bool:
        try:
            self._store.write(writes)
        except Conflict:
            return False
        return True


def ref_of(tenant: str, upload: FileUpload) -> ContentRef:
    """Return the content of the upload's parts."""
    return ContentRef(tenant, upload.upload_id, upload.upload_id)


def _put(tenant: str, upload: FileUpload, when: Condition) -> Put:
    kept_until = upload.ends_at + KEPT_FOR
    body = upload.model_dump_json(exclude_defaults=True).encode()
    return Put(upload_key(tenant, upload.upload_id), body, {"ttl": int(kept_until.timestamp())}, when=(when,))
