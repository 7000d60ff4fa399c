"""Records whose content is lost: they keep their position, and access to their content raises ContentLost."""

import logging
from threading import Lock

from turnstone.domain.errors import ContentLost
from turnstone.ports.records import Record
from turnstone.store.layout.keys import kind_and_name

log = logging.getLogger(__name__)
MOST_NOTED = 1_000


class LostRecord(Record):
    """A record with key, attributes and revision, whose body raises ContentLost."""

    __slots__ = ()

    @property
    def body(self) -> bytes:
        raise ContentLost(*kind_and_name(self.key))


class LossLog:
    """Logs each lost record once, however often it is read."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._noted: set[tuple[object, bytes]] = set()

    def note(self, record: Record, reason: object, problem: str = "is lost") -> None:
        """Log that the content of the record is lost, or has another problem."""
        with self._lock:
            if (record.key, record.body) in self._noted:
                return
            if len(self._noted) >= MOST_NOTED:
                self._noted.clear()
            self._noted.add((record.key, record.body))
        log.error("the content of the record %r %s: %s", record.key, problem, reason)
