"""Files: one record each in the list of their tenant, which names a content.

A file with an expiry has a time to live, after which it is invisible, removed or not; a job, stored in the same write,
removes the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from turnstone.domain.errors import Conflict, NotFound
from turnstone.domain.files.stored_files import StoredFile
from turnstone.domain.jobs import Job
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.records import Delete, Get, Operation, RevIs
from turnstone.ports.storage import RangeStore
from turnstone.store.cleanup.jobs import put_job
from turnstone.store.files.contents import KIND, ContentRef, FileContents, StoredPart, completed, small
from turnstone.store.keys.files import file_key, file_list, header_key
from turnstone.store.layout.idempotency import Once, answer_in, get_remembered
from turnstone.store.layout.keys import job_key
from turnstone.store.layout.listing import ListEntry, entries_of, entry_of, put_entry

REMEMBERED = "file"
FILES_AT_ONCE = 100


class FileStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store
        self.contents = FileContents(store)

    def remembered(self, tenant: str, attempt: Attempt, now: datetime) -> StoredFile | None:
        """Return the file of an earlier attempt of the request, None without one. Raises IdempotencyMismatch."""
        if attempt.key is None:
            return None
        (record,), _ = self._store.gather(get_remembered(tenant, attempt), [])
        answer = answer_in(record, attempt, now)
        return StoredFile.model_validate_json(answer[REMEMBERED]) if answer else None

    def create_small(self, tenant: str, file: StoredFile, content: bytes, attempt: Attempt) -> StoredFile:
        """Store a file of `SMALL_BYTES` at most. Returns and raises as `create` does."""
        ref = ContentRef(tenant, file.content_id)
        writes = [*file_writes(tenant, file), *small(ref, file.file_id, file.expires_at, content)]
        return self._once(tenant, file, attempt, writes)

    def create(self, tenant: str, file: StoredFile, part: StoredPart, expiry: Job, attempt: Attempt) -> StoredFile:
        """Store a file whose content has one part, and end the job that would cancel the content.

        Returns:
            The file, or that of an earlier attempt.

        Raises:
            IdempotencyMismatch: the key was used for another body.
            Conflict: the content was cancelled.
        """
        ref = ContentRef(tenant, file.content_id)
        writes = [*file_writes(tenant, file), completed(ref, file.file_id, file.expires_at, [part])]
        ended = Delete(job_key(expiry))
        if all(write.key != ended.key for write in writes):  # else the job of the expiry replaces it
            writes.append(ended)
        return self._once(tenant, file, attempt, writes)

    def get(self, tenant: str, file_id: str) -> StoredFile:
        """Return the file, expired or not. Raises NotFound."""
        record = self._store.get(file_key(tenant, file_id))
        if record is None:
            raise NotFound(KIND, file_id)
        return file_in(entry_of(record))

    def found(self, tenant: str, file_ids: Sequence[str]) -> dict[str, StoredFile]:
        """Return those of the files that exist, by id, expired or not."""
        found: dict[str, StoredFile] = {}
        for begin in range(0, len(file_ids), FILES_AT_ONCE):
            gets = [Get(file_key(tenant, file_id)) for file_id in file_ids[begin : begin + FILES_AT_ONCE]]
            records, _ = self._store.gather(gets, [])
            files = (file_in(entry_of(record)) for record in records if record is not None)
            found |= {file.file_id: file for file in files}
        return found

    def entries(self, tenant: str, after: str | None, limit: int, *, is_reverse: bool) -> Iterator[ListEntry]:
        """Yield the entries of the tenant's list after that file, read lazily."""
        return entries_of(self._store, file_list(tenant), after, limit, is_reverse=is_reverse)

    def delete(self, tenant: str, file: StoredFile, cleaning: Job) -> None:
        """Hide the file from every reader, and leave a job that removes its content. Raises NotFound."""
        writes: list[Operation] = [
            Delete(file_key(tenant, file.file_id), (RevIs(1),)),  # always true of an entry, which never changes
            Delete(header_key(tenant, file.content_id)),
            put_job(cleaning),
        ]
        try:
            self._store.write(writes)
        except Conflict as conflict:
            raise NotFound(KIND, file.file_id) from conflict

    def _once(self, tenant: str, file: StoredFile, attempt: Attempt, writes: Sequence[Operation]) -> StoredFile:
        answer = {REMEMBERED: file.model_dump_json()}
        found = Once(tenant, attempt, answer, file.created_at).write(self._store, writes)
        return file if found is answer else StoredFile.model_validate_json(found[REMEMBERED])


def file_in(entry: ListEntry) -> StoredFile:
    """Return the file of a list entry."""
    return StoredFile.model_validate({**entry.fields, "stamp": entry.stamp})


def file_writes(tenant: str, file: StoredFile) -> list[Operation]:
    """Return the writes of a file without its content, with the job of its expiry."""
    fields = file.model_dump(mode="json", exclude_defaults=True, exclude={"stamp"})
    entry = put_entry(file_key(tenant, file.file_id), fields, file.stamp)
    if file.expires_at is None:
        return [entry]
    expiry = cleaning_of(tenant, file.content_id, file.created_at, file.expires_at)
    return [entry._replace(attributes={"ttl": int(file.expires_at.timestamp())}), put_job(expiry)]


def cleaning_of(tenant: str, content_id: str, since: datetime, due_at: datetime) -> Job:
    """Return the job that removes a content which is cancelled, or whose file has expired."""
    return Job(kind="clean_file", tenant=tenant, order=content_id, since=since, due_at=due_at)
