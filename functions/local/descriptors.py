"""The descriptors of a process: how many connections they suffice for, and errors for want of them."""

import errno
import logging
import resource
import time

SPARE = 128  # for the database, the log, modules, and connections that are being taken or closed
SPARE_PER_TURN = 8  # for a turn's model, tool and database
WARN_EVERY_S = 60.0
# ETOOMANYREFS: too many descriptors are under way to other processes
SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ETOOMANYREFS})
TRY_AGAIN_S = 0.1
log = logging.getLogger(__name__)


class RareWarning:
    """A warning of what may happen often: logged at once, and then once a minute at most, with the number of times."""

    def __init__(self, log: logging.Logger, message: str) -> None:
        """Prepare it.

        Args:
            log: takes the warning.
            message: its format; the first argument is the number of times since the last warning.
        """
        self._log = log
        self._message = message
        self._times = 0
        self._next_at_s = 0.0

    def count(self, *arguments: object) -> None:
        """Count one more time, and log it if the last warning is old enough."""
        self._times += 1
        now_s = time.monotonic()
        if now_s >= self._next_at_s:
            self._log.warning(self._message, self._times, *arguments)
            self._next_at_s = now_s + WARN_EVERY_S
            self._times = 0


def room_for_connections(wanted: int, running_turns: int) -> int:
    """Return how many connections the descriptors of this process suffice for, `wanted` at most.

    The soft limit of descriptors is raised as far as needed and possible. Connections get at least half of it.
    """
    spare = SPARE + SPARE_PER_TURN * running_turns
    soft, hard = (_unless_infinite(limit) for limit in resource.getrlimit(resource.RLIMIT_NOFILE))
    if soft is None or soft >= wanted + spare:
        return wanted
    possible = wanted + spare if hard is None else min(wanted + spare, hard)
    if possible > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (possible, resource.RLIM_INFINITY if hard is None else hard))
    room = min(wanted, max(possible - spare, possible // 2))
    if room < wanted:
        log.warning("at most %d connections at a time, %d were wanted: raise `ulimit -n` (%d)", room, wanted, possible)
    return room


def _unless_infinite(limit: int) -> int | None:
    return None if limit == resource.RLIM_INFINITY else limit
