"""Sessions and their context segments as records."""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Generic, TypeVar

from turnstone.domain.refs import SessionRef
from turnstone.domain.sessions.context import Entry, Segment
from turnstone.domain.sessions.sessions import LockState, Session, SessionLock
from turnstone.ports.records import Absent, Put, Record, RevIs, Scalar
from turnstone.store.layout.frames import stamp, time_of_attribute
from turnstone.store.layout.keys import segment_key, session_key

MOST_PARSED = 256  # of about a thousand tokens each
MOST_ENTRIES = 1_024
MOST_SESSIONS = 1_024  # of about half a kilobyte each
ParsedT = TypeVar("ParsedT")
_IN_ATTRIBUTES = {"lock", "rev"}


def put_session(ref: SessionRef, session: Session) -> Put:
    """Return the write that stores the session, on condition that its revision is unchanged."""
    body = session.model_dump_json(exclude=_IN_ATTRIBUTES, exclude_defaults=True).encode()
    _sessions.keep(body, session)
    return Put(
        key=session_key(ref),
        body=body,
        attributes=lock_attributes(session.lock),
        when=(RevIs(session.rev) if session.rev else Absent(),),
    )


def session_of(record: Record) -> Session:
    lock = SessionLock.model_construct(
        state=LockState(str(record.attributes["status"])),
        order=_text(record.attributes.get("active")),
        fence=int(record.attributes["fence"]),
        reopened=int(record.attributes.get("reopened", 0)),
        lease_until=time_of_attribute(record.attributes.get("lease_until")),
        await_until=time_of_attribute(record.attributes.get("await_until")),
    )
    session = _sessions.find(record.body)
    if session is None:
        session = Session.model_validate_json(record.body)
        _sessions.keep(record.body, session)
    return session.model_copy(update={"lock": lock, "rev": record.rev})


def lock_attributes(lock: SessionLock) -> dict[str, Scalar]:
    attributes: dict[str, Scalar] = {"status": lock.state.value, "fence": lock.fence}
    if lock.order is not None:
        attributes["active"] = lock.order
    if lock.reopened:
        attributes["reopened"] = lock.reopened
    if lock.lease_until is not None:
        attributes["lease_until"] = stamp(lock.lease_until)
    if lock.await_until is not None:
        attributes["await_until"] = stamp(lock.await_until)
    return attributes


def put_segment(ref: SessionRef, segment: Segment) -> Put:
    """Return the write that stores the segment; the session's lock, held in the same write, guards it."""
    if segment.summary is None:
        entries = b",".join(_entries.json_of(segment.entries))
        body = b'{"number":%d,"entries":[%b]}' % (segment.number, entries)
    else:
        body = segment.model_dump_json().encode()
    _segments.keep(body, segment)
    return Put(key=segment_key(ref, segment.number), body=body)


def segment_of(record: Record) -> Segment:
    segment = _segments.find(record.body)
    if segment is None:
        segment = Segment.model_validate_json(record.body)
        _segments.keep(record.body, segment)
    return segment


def _text(value: Scalar | None) -> str | None:
    return None if value is None else str(value)


class _Parsed(Generic[ParsedT]):
    """Parsed bodies by their bytes, the last used ones: each turn reads again what the one before it wrote.

    Bytes are the key, so that a body which another process changed, or a deletion rewrote, is never taken for it.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[bytes, ParsedT] = OrderedDict()
        self._changing = Lock()

    def find(self, body: bytes) -> ParsedT | None:
        with self._changing:
            value = self._values.get(body)
            if value is not None:
                self._values.move_to_end(body)
            return value

    def keep(self, body: bytes, value: ParsedT) -> None:
        with self._changing:
            self._values[body] = value
            if len(self._values) > self._most:
                self._values.popitem(last=False)


class _EntryTexts:
    """The JSON of log entries, the last written ones: each turn writes its segment again, with one entry more."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._texts: OrderedDict[int, tuple[Entry, bytes]] = OrderedDict()  # by id, of an entry that is kept alive
        self._changing = Lock()

    def json_of(self, entries: Sequence[Entry]) -> list[bytes]:
        with self._changing:
            kept = [self._texts.get(id(entry)) for entry in entries]
        texts = []
        for entry, found in zip(entries, kept, strict=True):
            if found is None or found[0] is not entry:
                found = entry, entry.model_dump_json().encode()
                self._keep(found)
            texts.append(found[1])
        return texts

    def _keep(self, written: tuple[Entry, bytes]) -> None:
        with self._changing:
            self._texts[id(written[0])] = written
            if len(self._texts) > self._most:
                self._texts.popitem(last=False)


_segments = _Parsed[Segment](MOST_PARSED)
_sessions = _Parsed[Session](MOST_SESSIONS)
_entries = _EntryTexts(MOST_ENTRIES)
