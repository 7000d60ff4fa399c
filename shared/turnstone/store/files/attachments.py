"""Files produced in a session: stored in its partition, and deleted with it; their bytes as large payloads."""

from base64 import b64encode
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from turnstone.domain.access.access import Ownership
from turnstone.domain.errors import ContentLost, NotFound
from turnstone.domain.refs import SessionRef
from turnstone.domain.sessions.sessions import LockState, Session
from turnstone.domain.tools.tool_runs import ProducedFile
from turnstone.ports.records import AttributeIs, Check, Get, Put, Record
from turnstone.ports.storage import RangeStore
from turnstone.store.agents.implicit import is_implicit, owner_of_answering
from turnstone.store.layout.frames import frame, private_part, wire_part
from turnstone.store.layout.keys import agent_key, attachment_key, session_key
from turnstone.store.sessions.session_records import session_of

HELD_BYTES = 128 * 1024


class AttachedFile(NamedTuple):
    """A produced file, as read.

    Attributes:
        pieces: yields a large file's bytes; `body` is empty then.
    """

    name: str
    mime_type: str
    body: bytes
    pieces: Iterator[bytes] | None = None


class Attached(NamedTuple):
    """A requested file, with its session's and agent's owners, for a check of access before the file is read."""

    attachment_id: str
    record: Record | None
    session: Session
    agent_owner: Ownership

    @property
    def file(self) -> AttachedFile:
        """Return the file, in pieces if it is large and read so. Raises ContentLost, NotFound."""
        if self.record is None:
            raise NotFound("attachment", self.attachment_id)
        if self.record.pieces is None:
            return _file(self.record.body)
        pieces = self.record.pieces()
        first, second = next(pieces), next(pieces, None)
        if second is None:
            return _file(first)
        beginning = _file(first)
        return beginning._replace(body=b"", pieces=chain((beginning.body, second), pieces))


def _file(body: bytes) -> AttachedFile:
    private = private_part(body)
    return AttachedFile(private["name"], private["mime_type"], wire_part(body))


class AttachmentStore:
    def __init__(self, store: RangeStore, *, reads_in_pieces: bool = False) -> None:
        """With `reads_in_pieces` a large file is never held whole; it is read twice for that."""
        self._store = store
        self._held_bytes = HELD_BYTES if reads_in_pieces else None

    def put(self, ref: SessionRef, attachment_id: str, file: ProducedFile) -> None:
        """Store the file durably; it replaces one of the same id.

        Raises:
            Conflict: no turn of the session runs, so a deleted session stays deleted.
            StoreUnavailable: it could not be stored.
        """
        body = frame({"name": file.name, "mime_type": file.mime_type}, file.body)
        is_running = AttributeIs("status", LockState.RUNNING.value)
        self._store.write(
            [Put(attachment_key(ref, attachment_id), body, is_apart=True), Check(session_key(ref), (is_running,))]
        )

    def image(self, ref: SessionRef, address: str) -> str | None:
        """Return the base64 of the session's image at the address, None if it is gone. Raises StoreUnavailable."""
        try:
            file = self.find(ref, address.rpartition("/")[2]).file
        except (NotFound, ContentLost):
            return None
        return b64encode(file.body + b"".join(file.pieces or ())).decode()

    def find(self, ref: SessionRef, attachment_id: str) -> Attached:
        """Return the file, found or not, with its session. Raises NotFound for session or agent."""
        gets = [
            Get(session_key(ref)),
            Get(agent_key(ref.tenant, ref.agent_id)),
            Get(attachment_key(ref, attachment_id), self._held_bytes),
        ]
        (header, agent, record), _ = self._store.gather(gets, [])
        if header is None or (agent is None and not is_implicit(ref.agent_id)):
            raise NotFound("session", ref.session_id)
        return Attached(attachment_id, record, session_of(header), owner_of_answering(agent, ref.agent_id))
