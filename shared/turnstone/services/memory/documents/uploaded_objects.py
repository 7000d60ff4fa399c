"""Objects that the operator puts into the bucket become files and documents of memory banks.

An object is `uploads/{tenant}/{bank}/{name}`; the name is the id of the document. Events come more than once and in any
order, so each only names an object, which is read as it is now, and counts unless its document has changed since.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import unquote, unquote_plus

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import Forbidden, InvalidRequest, NotFound, StoreUnavailable
from turnstone.domain.files.stored_files import MOST_NAME_CHARACTERS, MOST_TYPE_CHARACTERS, StoredFile
from turnstone.domain.memory.banks import SEARCHED, BankRef
from turnstone.domain.memory.documents import Document, DocumentProblem, NewDocument
from turnstone.domain.memory.ingestions import Outdated
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.objects import Objects, UploadedObject
from turnstone.services.memory.banks import Banks
from turnstone.services.memory.documents.document_records import DocumentRecords
from turnstone.services.memory.documents.ingest_runs import MOST_FILE_BYTES, TOO_LARGE
from turnstone.services.memory.documents.ingesting import Ingesting
from turnstone.store.memory.banks import StoredBank

log = logging.getLogger(__name__)
FOLDER = "uploads"
TRIES = 4
# takes the caller, the name, the type and the content of a file, and the attempt to store it
CreateStoredFile = Callable[[Caller, str, str, Iterator[bytes], Attempt], StoredFile]


@dataclass(frozen=True, slots=True)
class UploadedObjectDeps:
    objects: Objects
    banks: Banks
    records: DocumentRecords
    ingesting: Ingesting
    create_file: CreateStoredFile
    delete_file: Callable[[Caller, str], None]


class ObjectName(NamedTuple):
    """The address of an object: slashes and percent signs of tenant and bank are percent-encoded in its key."""

    tenant: str
    bank_id: str
    document_id: str


class UploadedObjects:
    def __init__(self, deps: UploadedObjectDeps) -> None:
        self._deps = deps

    def take(self, key: str) -> None:
        """Have the object of an event inserted into its bank, unless it is missing or was inserted.

        Args:
            key: as in the event: as it is, or encoded as in a URL. Source: S3's notifications encode it.

        Raises:
            StoreUnavailable: send the event again.
        """
        found = self._key_of(key)
        named = None if found is None else _name_in(found)
        if found is None:
            log.info("an uploaded object is missing, and its event ignored")
        elif named is None:
            log.warning("an uploaded object is ignored: its key is not %s/TENANT/BANK/NAME", FOLDER)
        elif not any(self._try_take(found, named) for _ in range(TRIES)):
            raise StoreUnavailable("the document of an uploaded object changes too fast, try again")

    def _key_of(self, key: str) -> str | None:
        """Return the key of the object that the event's key stands for, None for a missing one."""
        decoded = unquote_plus(key)
        if decoded == key:
            return key
        for each in (key, decoded):
            with self._deps.objects.opened(each) as found:
                if found is not None:
                    return each
        return None

    def _try_take(self, key: str, named: ObjectName) -> bool:
        """Have the object inserted; return False if its document has changed in between."""
        try:
            stored = self._deps.banks.lent(named.tenant, named.bank_id)
        except NotFound:
            log.warning("an uploaded object is ignored: its tenant has no memory bank %r", named.bank_id)
            return True
        if stored.bank.kind not in SEARCHED:
            log.warning("an uploaded object is ignored: a %s bank takes no files", stored.bank.kind)
            return True
        ref = BankRef(named.tenant, stored.content_id, named.bank_id)
        found = self._deps.records.found(ref, [named.document_id]).get(named.document_id)
        before = found.document if found else None
        with self._deps.objects.opened(key) as current:  # after the document, which must not change from now on
            if current is None or _is_same(before, current):
                return True
            return self._try_insert(stored, named, current, before)

    def _try_insert(
        self, stored: StoredBank, named: ObjectName, current: UploadedObject, before: Document | None
    ) -> bool:
        stamp = stored.bank.stamp
        groups = stamp.attributes.model_dump(include=set(type(stamp.attributes).model_fields))
        caller = Caller(tenant=named.tenant, principal=stamp.owner or "", **groups)
        new = NewDocument(named.document_id, size_bytes=current.size_bytes, source_version=current.version)
        if current.size_bytes > MOST_FILE_BYTES:
            return self._try_refuse(caller, named.bank_id, new, before)
        filename = _printable(named.document_id.rpartition("/")[2])[-MOST_NAME_CHARACTERS:]
        attempt = _attempt_of(named, current, before)
        file = self._deps.create_file(caller, filename, _type_of(current), current.pieces, attempt)
        try:
            self._deps.ingesting.replace(caller, named.bank_id, new._replace(file_id=file.file_id), before)
        except (Outdated, NotFound, InvalidRequest):
            self._drop_unused(caller, named, file)
            return False
        return True

    def _try_refuse(self, caller: Caller, bank_id: str, new: NewDocument, before: Document | None) -> bool:
        try:
            problem = DocumentProblem(code="invalid_file", message=TOO_LARGE)
            self._deps.ingesting.refuse(caller, bank_id, new, before, problem)
        except (Outdated, NotFound, InvalidRequest):
            return False
        return True

    def _drop_unused(self, caller: Caller, named: ObjectName, file: StoredFile) -> None:
        """Delete a file that no document was made of: another event for the same object may have used it."""
        try:
            stored = self._deps.banks.lent(named.tenant, named.bank_id)
            ref = BankRef(named.tenant, stored.content_id, named.bank_id)
            found = self._deps.records.found(ref, [named.document_id]).get(named.document_id)
        except NotFound:
            found = None
        if found is not None and found.document.file_id == file.file_id:
            return
        try:
            self._deps.delete_file(caller, file.file_id)
        except (NotFound, Forbidden):
            log.debug("a file that no document was made of is deleted already")


def _name_in(key: str) -> ObjectName | None:
    """Return the address in a key, None without one."""
    folder, _, rest = key.partition("/")
    tenant, _, rest = rest.partition("/")
    bank_id, _, name = rest.partition("/")
    if folder != FOLDER or not tenant or not bank_id or not name or name.endswith("/"):
        return None
    return ObjectName(unquote(tenant), unquote(bank_id), name)


def _is_same(before: Document | None, current: UploadedObject) -> bool:
    """Return whether the document was made of this content; one that failed may be made again."""
    return before is not None and before.source_version == current.version and before.status != "failed"


def _attempt_of(named: ObjectName, current: UploadedObject, before: Document | None) -> Attempt:
    """Return the attempt to store the content, the same for each event of it, until the document changes."""
    replaced = before.insertion_id if before else ""
    key = sha256("\x00".join((FOLDER, *named, current.version, replaced)).encode()).hexdigest()
    return Attempt(fingerprint=key, key=key)


def _type_of(current: UploadedObject) -> str:
    return _printable(current.media_type, "\x7f")[:MOST_TYPE_CHARACTERS] or "application/octet-stream"


def _printable(text: str, end: str = "\U0010ffff") -> str:
    return "".join(each if each.isprintable() and each < end else "_" for each in text)
