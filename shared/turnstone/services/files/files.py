"""Files of callers: create, read, list, delete."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from re import fullmatch

from turnstone.domain.access.access import owner_of
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import Conflict, NotFound, StoreUnavailable, TurnstoneError
from turnstone.domain.files.stored_files import FILE_ID, UPLOAD_LIVES, FilesQuery, StoredFile, lifetime_s
from turnstone.domain.lists import ListQuery
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.supervision import Jobs
from turnstone.ports.system import Clock, IdGenerator
from turnstone.services.access.access import AccessRules
from turnstone.services.access.visible_list import Listing
from turnstone.store.cleanup.jobs import sent
from turnstone.store.files.contents import KIND, SMALL_BYTES, WHOLE_PART, ContentClosed, ContentRef
from turnstone.store.files.files import FileStore, cleaning_of, file_in
from turnstone.store.layout.listing import ListEntry

log = logging.getLogger(__name__)
# Source: the clients of OpenAI's API take an empty page for the end of a list, even if `has_more` is true
MOST_BEFORE_FIRST = 10_000
ONCE = Attempt(fingerprint="")
TOO_SLOW = "the file took too long to store; send it again"


@dataclass(frozen=True, slots=True)
class FileDeps:
    """Dependencies of files. `jobs` is a function, because reading sends none."""

    store: FileStore
    rules: AccessRules
    jobs: Callable[[], Jobs]
    clock: Clock
    ids: IdGenerator


class Files:
    def __init__(self, deps: FileDeps) -> None:
        self._deps = deps
        self._store = deps.store

    def create(
        self,
        caller: Caller,
        filename: str,
        media_type: str,
        purpose: str,
        parts: Iterable[bytes],
        expires_after_s: int | None = None,
        attempt: Attempt = ONCE,
    ) -> StoredFile:
        """Store a file of these bytes, a few megabytes at a time; it is visible once all of them are stored.

        Args:
            parts: the content, in parts of any size.
            expires_after_s: seconds until the file expires; None for the time of its purpose.

        Returns:
            The file, or that of an earlier attempt with the same key.

        Raises:
            IdempotencyMismatch: the request's key was used for another body.
            StoreUnavailable: nothing is stored.
        """
        tenant = caller.tenant
        if (before := self._store.remembered(tenant, attempt, self._deps.clock.now())) is not None:
            return before
        file = StoredFile(
            file_id="",
            filename=filename,
            media_type=media_type,
            purpose=purpose,
            size_bytes=0,
            created_at=self._deps.clock.now(),
            content_id=self._deps.ids.new_id(),
            stamp=owner_of(caller),
        )
        lives_s = lifetime_s(purpose, expires_after_s)
        beginning, rest = _begun(parts)
        if len(beginning) <= SMALL_BYTES:
            dated = self.dated(file, len(beginning), lives_s)
            return self._store.create_small(tenant, dated, beginning, attempt)
        return self._create_large(tenant, file, chain((beginning,), rest), lives_s, attempt)

    def dated(self, file: StoredFile, size_bytes: int, lives_s: int | None) -> StoredFile:
        """Return a file that is whole now, with its id and its times."""
        now = self._deps.clock.now()
        return file.model_copy(
            update={
                "file_id": f"file-{self._deps.ids.order_key(now, None)}",
                "size_bytes": size_bytes,
                "created_at": now,
                "expires_at": None if lives_s is None else now + timedelta(seconds=lives_s),
            }
        )

    def get(self, caller: Caller, file_id: str) -> StoredFile:
        """Return the file. Raises NotFound."""
        file = self._kept(caller, file_id)
        self._deps.rules.check_sight(caller, file.stamp, KIND, file_id)
        return file

    def open(self, caller: Caller, file_id: str) -> tuple[StoredFile, Iterator[bytes]]:
        """Return the file and its bytes, read from the store on iteration, some megabytes at a time.

        The iteration raises ContentLost, and NotFound if the file is deleted in the meantime.

        Raises:
            NotFound: there is no such file.
        """
        file = self.get(caller, file_id)
        ref = ContentRef(caller.tenant, file.content_id, file_id)
        header = self._store.contents.header(ref)
        if header is None:
            raise NotFound(KIND, file_id)
        return file, self._store.contents.pieces(ref, header.parts)

    def list(self, caller: Caller, query: FilesQuery) -> tuple[Listing, Iterator[StoredFile]]:
        """Return the part of the list, and its files, read from the store on iteration.

        A page ends early where too many files in between are not shown: other callers', of other purposes, or expired.
        """
        now = self._deps.clock.now()

        def is_shown(entry: ListEntry) -> bool:
            file = file_in(entry)
            is_queried = not file.is_over(now) and query.purpose in (None, file.purpose)
            return is_queried and self._deps.rules.may_see(caller, entry.stamp)

        entries = self._store.entries(caller.tenant, query.after, query.limit, is_reverse=query.is_newest_first)
        listing = Listing(entries, ListQuery(limit=query.limit, cursor=query.after), is_shown, MOST_BEFORE_FIRST)
        return listing, map(file_in, listing)

    def delete(self, caller: Caller, file_id: str) -> None:
        """Delete the file. Raises NotFound, Forbidden."""
        file = self._kept(caller, file_id)
        self._deps.rules.check_deletion(caller, file.stamp, KIND, file_id)
        now = self._deps.clock.now()
        job = cleaning_of(caller.tenant, file.content_id, now, now)
        self._store.delete(caller.tenant, file, job)
        sent(self._deps.jobs(), job)

    def _kept(self, caller: Caller, file_id: str) -> StoredFile:
        """Return the tenant's file. Raises NotFound, also for one that has expired."""
        if not fullmatch(FILE_ID, file_id):
            raise NotFound(KIND, file_id)
        file = self._store.get(caller.tenant, file_id)
        if file.is_over(self._deps.clock.now()):
            raise NotFound(KIND, file_id)
        return file

    def _create_large(
        self, tenant: str, file: StoredFile, content: Iterable[bytes], lives_s: int | None, attempt: Attempt
    ) -> StoredFile:
        """Store the pieces, then the file; what a failure leaves is removed at once, what a crash leaves by a job."""
        ref = ContentRef(tenant, file.content_id)
        expiry = cleaning_of(tenant, file.content_id, file.created_at, file.created_at + UPLOAD_LIVES)
        self._store.contents.begin(ref, expiry)
        try:
            part = self._store.contents.add(ref, WHOLE_PART, content)
            dated = self.dated(file, part.size_bytes, lives_s)
            created = self._store.create(tenant, dated, part, expiry, attempt)
        except (ContentClosed, Conflict) as closed:
            raise StoreUnavailable(TOO_SLOW) from closed
        except TurnstoneError:
            self._cancel(ref, self._deps.clock.now())
            raise
        if created is not dated:
            self._cancel(ref, self._deps.clock.now())
        return created

    def _cancel(self, ref: ContentRef, now: datetime) -> None:
        """Have the content removed now; if that fails, its job does so later."""
        job = cleaning_of(ref.tenant, ref.content_id, now, now)
        try:
            self._store.contents.cancel(ref, job)
        except ContentClosed:
            return
        except StoreUnavailable as unavailable:
            log.warning("a file that was not stored is removed later: %s", unavailable)
            return
        sent(self._deps.jobs(), job)


def _begun(parts: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """Return the first bytes, more than `SMALL_BYTES` if there are more, and the rest."""
    beginning = bytearray()
    rest = iter(parts)
    for part in rest:
        beginning += part
        if len(beginning) > SMALL_BYTES:
            break
    return bytes(beginning), rest
