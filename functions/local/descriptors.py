"""File descriptors of a process: the connections they suffice for, and errors when they run out."""

import errno
import logging
import resource
import time

SPARE = 128  # for the database, the log, modules, and connections being accepted or closed
SPARE_PER_TURN = 8  # for a turn's model, tool and database
WARN_EVERY_S = 60.0
# ETOOMANYREFS: too many descriptors are in transit to other processes
SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ETOOMANYREFS})
TRY_AGAIN_S = 0.1
log = logging.getLogger(__name__)


class RareWarning:
    """A warning of a frequent event: logged at once, then at most once a minute, with the number of times."""

    def __init__(self, log: logging.Logger, message: str) -> None:
        """Prepare the warning.

        Args:
            log: the logger of the warning.
            message: its format; the first argument is the number of times since the last warning.
        """
        self._log = log
        self._message = message
        self._times = 0
        self._next_at_s = 0.0

    def count(self, *arguments: object) -> None:
        """Count the event, and log it if the last warning is old enough."""
        self._times += 1
        now_s = time.monotonic()
        if now_s >= self._next_at_s:
            self._log.warning(self._message, self._times, *arguments)
            self._next_at_s = now_s + WARN_EVERY_S
            self._times = 0


def room_for_connections(most: int, running_turns: int) -> int:
    """Return the number of connections for which the descriptors of this process suffice, at most `most`.

    Raises the soft limit of descriptors as far as necessary and possible. Connections get at least half of it.
    """
    spare = SPARE + SPARE_PER_TURN * running_turns
    soft, hard = (_unless_infinite(limit) for limit in resource.getrlimit(resource.RLIMIT_NOFILE))
    if soft is None or soft >= most + spare:
        return most
    possible = most + spare if hard is None else min(most + spare, hard)
    if possible > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (possible, resource.RLIM_INFINITY if hard is None else hard))
    room = min(most, max(possible - spare, possible // 2))
    if room < most:
        log.warning("at most %d connections at a time instead of %d: raise `ulimit -n` (%d)", room, most, possible)
    return room


def _unless_infinite(limit: int) -> int | None:
    return None if limit == resource.RLIM_INFINITY else limit
