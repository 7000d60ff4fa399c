"""Uploads: files that arrive in parts, in any order, at the same time or again after a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import md5, sha256
from re import fullmatch
from typing import NamedTuple

from turnstone.domain.access.access import owner_of
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import InvalidRequest, NotFound
from turnstone.domain.files.stored_files import (
    PART_ID,
    UPLOAD_ID,
    UPLOAD_LIVES,
    FileUpload,
    NewUpload,
    StoredFile,
    lifetime_s,
)
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.values.ids import moment_of
from turnstone.ports.supervision import Jobs
from turnstone.ports.system import Clock, IdGenerator
from turnstone.services.access.access import AccessRules
from turnstone.store.cleanup.jobs import sent
from turnstone.store.files.contents import ContentClosed, StoredPart
from turnstone.store.files.files import cleaning_of
from turnstone.store.files.uploads import KIND, FoundUpload, UploadStore, ref_of
from turnstone.store.layout.contention import ReadAgain, retried

BUSY = "the upload changes too fast, try again"


@dataclass(frozen=True, slots=True)
class UploadDeps:
    """Dependencies of uploads. `dated` gives a file that is whole its id and its times, by size and seconds of life."""

    store: UploadStore
    rules: AccessRules
    dated: Callable[[StoredFile, int, int | None], StoredFile]
    jobs: Callable[[], Jobs]
    clock: Clock
    ids: IdGenerator


class AddedPart(NamedTuple):
    """A part of an upload."""

    part_id: str
    upload_id: str

    @property
    def created_at(self) -> datetime:
        return moment_of(self.part_id.removeprefix("part_"))


class Uploads:
    def __init__(self, deps: UploadDeps) -> None:
        self._deps = deps
        self._store = deps.store

    def create(self, caller: Caller, new: NewUpload, attempt: Attempt) -> FileUpload:
        """Begin an upload; return it, or that of an earlier attempt with the same key. Raises IdempotencyMismatch."""
        now = self._deps.clock.now()
        upload = FileUpload(
            upload_id=f"upload_{self._deps.ids.order_key(now, None)}",
            filename=new.filename,
            media_type=new.media_type,
            purpose=new.purpose,
            size_bytes=new.size_bytes,
            created_at=now,
            ends_at=now + UPLOAD_LIVES,
            file_lives_s=lifetime_s(new.purpose, new.expires_after_s),
            stamp=owner_of(caller),
        )
        expiry = cleaning_of(caller.tenant, upload.upload_id, now, upload.ends_at)
        return self._store.create(caller.tenant, upload, expiry, attempt)

    def add_part(
        self, caller: Caller, upload_id: str, size_bytes: int, content: Iterable[bytes], attempt: Attempt
    ) -> AddedPart:
        """Store a part, which counts once it is whole; return it, or that of an earlier attempt with the same key.

        Raises:
            NotFound, Forbidden: the caller can't add to the upload.
            InvalidRequest: the upload has ended, or the part is empty or larger than the whole file.
            IdempotencyMismatch: the request's key was used for another body.
        """
        upload = self._seen(caller, upload_id, "add a part to").upload
        now = self._deps.clock.now()
        if (before := self._store.remembered_part(caller.tenant, attempt, now)) is not None:
            return AddedPart(before, upload_id)
        self._check_pending(upload)
        if not 0 < size_bytes <= upload.size_bytes:
            room = f"must have 1 to {upload.size_bytes} bytes, the size of the upload, not {size_bytes}"
            raise InvalidRequest(f"data: {room}", ("data",))
        part_id = f"part_{self._deps.ids.order_key(now, None)}"
        try:
            part = self._store.contents.add(ref_of(caller.tenant, upload), part_id, content)
            part_id = self._store.add_part(caller.tenant, upload, part, attempt, now)
        except ContentClosed:
            raise _ended(self._seen(caller, upload_id).upload, self._deps.clock.now()) from None
        return AddedPart(part_id, upload_id)

    def complete(self, caller: Caller, upload_id: str, part_ids: Sequence[str], digest: str | None) -> FileUpload:
        """Make a file of the parts in this order; return the upload with the file, also for a repeated request.

        Args:
            digest: MD5 of the file in hexadecimal digits, None to leave it unchecked.

        Raises:
            NotFound, Forbidden: the caller can't complete the upload.
            InvalidRequest: the upload has ended; a part is unknown, or named twice; the parts are not of the announced
                size; they have another digest.
            ContentLost: a part is lost.
        """
        completed_with = sha256("\n".join([digest or "", *part_ids]).encode("utf-8", "surrogatepass")).hexdigest()

        def complete() -> FileUpload:
            found = self._seen(caller, upload_id, "complete")
            upload = found.upload
            if upload.completed_with == completed_with:
                return upload
            self._check_pending(upload)
            parts = self._parts(caller, upload, part_ids)
            self._check_digest(caller, upload, parts, digest)
            file = self._deps.dated(_file_of(upload), upload.size_bytes, upload.file_lives_s)
            changes = {"status": "completed", "file": file, "completed_with": completed_with}
            changed = upload.model_copy(update=changes)
            if not self._store.complete(caller.tenant, found, changed, parts):
                raise ReadAgain
            return changed

        return retried(complete, BUSY, on=(ReadAgain,))

    def cancel(self, caller: Caller, upload_id: str) -> FileUpload:
        """End the upload; return it, also if it is cancelled already.

        Raises:
            NotFound, Forbidden: the caller can't cancel the upload.
            InvalidRequest: it is completed, or has expired.
        """

        def cancel() -> FileUpload:
            found = self._seen(caller, upload_id, "cancel")
            if found.upload.status == "cancelled":
                return found.upload
            self._check_pending(found.upload)
            now = self._deps.clock.now()
            job = cleaning_of(caller.tenant, upload_id, now, now)
            changed = found.upload.model_copy(update={"status": "cancelled"})
            if not self._store.cancel(caller.tenant, found, changed, job):
                raise ReadAgain
            sent(self._deps.jobs(), job)
            return changed

        return retried(cancel, BUSY, on=(ReadAgain,))

    def _seen(self, caller: Caller, upload_id: str, act: str = "change") -> FoundUpload:
        """Return the upload that the caller may change. Raises NotFound, Forbidden."""
        if not fullmatch(UPLOAD_ID, upload_id):
            raise NotFound(KIND, upload_id)
        found = self._store.find(caller.tenant, upload_id)
        self._deps.rules.check_deletion(caller, found.upload.stamp, KIND, upload_id, act)
        return found

    def _check_pending(self, upload: FileUpload) -> None:
        """Raise InvalidRequest if the upload has ended."""
        now = self._deps.clock.now()
        if upload.status != "pending" or upload.is_over(now):
            raise _ended(upload, now)

    def _parts(self, caller: Caller, upload: FileUpload, part_ids: Sequence[str]) -> list[StoredPart]:
        """Return the named parts. Raises InvalidRequest."""
        first_at: dict[str, int] = {}
        for position, part_id in enumerate(part_ids):
            if not fullmatch(PART_ID, part_id):
                raise _unknown(position, part_id)
            if part_id in first_at:
                location = ("part_ids", position)
                raise InvalidRequest(f"part_ids.{position}: names the part {part_id!r} a second time", location)
            first_at[part_id] = position
        parts = []
        found = self._store.contents.parts(ref_of(caller.tenant, upload), part_ids)
        for position, part in enumerate(found):
            if part is None:
                raise _unknown(position, part_ids[position])
            parts.append(part)
        if (size_bytes := sum(part.size_bytes for part in parts)) != upload.size_bytes:
            sizes = f"the parts have {size_bytes} bytes together, and the upload was created for {upload.size_bytes}"
            raise InvalidRequest(f"part_ids: {sizes}; name every part", ("part_ids",))
        return parts

    def _check_digest(
        self, caller: Caller, upload: FileUpload, parts: Sequence[StoredPart], digest: str | None
    ) -> None:
        """Raise InvalidRequest unless the parts have the digest."""
        if digest is None:
            return
        found = md5(usedforsecurity=False)
        for piece in self._store.contents.pieces(ref_of(caller.tenant, upload), parts):
            found.update(piece)
        if found.hexdigest() != digest.lower():
            raise InvalidRequest(f"md5: the parts have {found.hexdigest()}; name them in their order", ("md5",))


def _file_of(upload: FileUpload) -> StoredFile:
    return StoredFile(
        file_id="",
        filename=upload.filename,
        media_type=upload.media_type,
        purpose=upload.purpose,
        size_bytes=upload.size_bytes,
        created_at=upload.created_at,
        content_id=upload.upload_id,
        stamp=upload.stamp,
    )


def _ended(upload: FileUpload, now: datetime) -> InvalidRequest:
    state = "expired" if upload.is_over(now) else upload.status
    return InvalidRequest(f"the upload {upload.upload_id!r} is {state}; create a new one")


def _unknown(position: int, part_id: str) -> InvalidRequest:
    return InvalidRequest(f"part_ids.{position}: the upload has no part {part_id!r}", ("part_ids", position))
