"""Several processes that serve at one address: this one takes the connections and hands them out in turns.

`functions/local/worker.py` is the program of the workers. A channel leads to each: connections go one way, the
worker's readiness or its error the other. Whichever of the two dies, the other hears the end of it.
"""

import logging
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from .descriptors import SCARCE, TRY_AGAIN_S, RareWarning
from .last_resort import MARGIN_S, LastResort

WORKER = "turnstone.functions.local.worker"
SERVES = b"serves"
HANDED = b"c"  # goes with each connection, because a descriptor alone can't be sent
BACKLOG = 2_048
CHANNEL_BYTES = 16_384  # some twenty connections: the system limits how many are under way between processes, too
START_AGAIN_S = 1.0  # after a process could not be replaced
SIGNALS = (signal.SIGINT, signal.SIGTERM)
KILLED_AFTER_S = MARGIN_S + 1.0  # after the drain, once its own last resort should have ended it
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
log = logging.getLogger(__name__)


class NotStarted(Exception):
    """A process can't serve; the message tells why."""


class _Child:
    """A process that serves, or is about to."""

    def __init__(self) -> None:
        self.channel, theirs = socket.socketpair()
        self.channel.setblocking(False)
        self.channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, CHANNEL_BYTES)
        self.reason = ""
        self.has_served = False
        command = [sys.executable, "-P", "-m", WORKER, str(theirs.fileno())]
        # Ctrl-C is told to all that a terminal has started, but it is for this process to say when the others end.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()])  # noqa: S603 (words of our own)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()


class Processes:
    """Starts so many processes, has them share the connections, and replaces those that die."""

    def __init__(
        self, listening: socket.socket, number: int, announce: Callable[[], None], drain_seconds: float
    ) -> None:
        """Prepare them.

        Args:
            listening: bound, and not listened on before all of them serve.
            number: of the processes that serve.
            announce: called when all of them do, for the first time.
            drain_seconds: how long the running turns of a process may take to finish once it is to end.
        """
        self._listening = listening
        self._number = number
        self._announce = announce
        self._selector = selectors.DefaultSelector()
        self._children: list[_Child] = []
        self._serving: deque[_Child] = deque()
        self._unhanded: socket.socket | None = None
        self._takes_connections = False
        self._is_announced = False
        self._is_stopping = False
        self._start_at_s = 0.0
        self._take_at_s = 0.0
        self._is_pausing = False
        self._scarcity = RareWarning(log, "%d times a connection could not be accepted: %s")
        self._stop_within_s = drain_seconds + KILLED_AFTER_S
        self._stop_by_s: float | None = None
        self._last_resort = LastResort(self._stop_within_s + MARGIN_S)
        self._failure: str | None = None

    def serve(self) -> None:
        """Serve until told to end by a signal, and until the others have ended, too.

        Raises:
            NotStarted: one of the first processes can't serve.
        """
        self._listening.setblocking(False)
        with self._signals_heard():
            while not self._is_stopping or self._children:
                self._start_missing()
                for key, events in self._selector.select(self._longest_wait_s()):
                    key.data(events)
                self._kill_late()
                self._choose_what_to_wait_for()
        if self._failure is not None:
            raise NotStarted(self._failure)

    @contextmanager
    def _signals_heard(self) -> Iterator[None]:
        heard, telling = socket.socketpair()
        with heard, telling:
            telling.setblocking(False)
            self._selector.register(heard, READ, lambda _: self._told(heard.recv(1)))
            signal.set_wakeup_fd(telling.fileno())
            for number in SIGNALS:
                signal.signal(number, lambda *_: None)
            yield

    def _told(self, number: bytes) -> None:
        if not self._is_stopping:
            self._stop()
        elif number[0] == signal.SIGINT:  # a second Ctrl-C: somebody does not want to wait
            for child in self._children:
                child.process.kill()

    def _stop(self) -> None:
        self._is_stopping = True
        self._stop_by_s = time.monotonic() + self._stop_within_s
        self._last_resort.arm()
        self._choose_what_to_wait_for()
        self._listening.close()
        if self._unhanded is not None:
            self._unhanded.close()
            self._unhanded = None
        for child in self._children:
            child.process.terminate()
            child.process.send_signal(signal.SIGCONT)  # one that was stopped would not end

    def _kill_late(self) -> None:
        """Kill what has not ended in time: a process that is stopped, or waits for what does not come."""
        if self._stop_by_s is None or time.monotonic() < self._stop_by_s:
            return
        self._stop_by_s = None
        for child in self._children:
            log.warning("process %d has not ended in time and is killed", child.process.pid)
            child.process.kill()

    def _start_missing(self) -> None:
        if self._is_stopping or time.monotonic() < self._start_at_s:
            return
        while len(self._children) < self._number:
            try:
                child = _Child()
            except OSError as problem:
                self._fail_to_start(f"no descriptors or no memory for it: {problem.strerror}")
                return
            self._children.append(child)
            self._selector.register(child.channel, READ, partial(self._attend, child))

    def _longest_wait_s(self) -> float | None:
        if self._stop_by_s is not None:
            return max(0.0, self._stop_by_s - time.monotonic())
        if self._is_stopping:
            return None
        awaited_s = [self._start_at_s] if len(self._children) < self._number else []
        if self._is_pausing:
            awaited_s.append(self._take_at_s)
        return max(0.0, min(awaited_s) - time.monotonic()) if awaited_s else None

    def _attend(self, child: _Child, events: int) -> None:
        if events & WRITE and self._unhanded is not None and self._is_handed(self._unhanded):
            self._unhanded.close()
            self._unhanded = None
        if events & READ:
            self._hear(child)

    def _hear(self, child: _Child) -> None:
        try:
            word = child.channel.recv(1_024)
        except ConnectionResetError:
            word = b""  # it died with connections that it had not taken out of the channel
        if not word:
            self._bury(child)
        elif word == SERVES:
            child.has_served = True
            self._serving.append(child)
            if not self._is_announced and len(self._serving) == self._number:
                self._listening.listen(BACKLOG)
                self._announce()
                self._is_announced = True
        else:
            child.reason = word.decode()

    def _bury(self, child: _Child) -> None:
        """Forget one that has ended; it is replaced, unless it was one of the first and never served."""
        self._selector.unregister(child.channel)
        child.channel.close()
        exit_code = child.process.wait()
        self._children.remove(child)
        with suppress(ValueError):
            self._serving.remove(child)
        if self._is_stopping:
            return
        pid = child.process.pid
        if child.has_served:
            log.warning("process %d has ended (%d), another takes its place", pid, exit_code)
            return
        self._fail_to_start(child.reason or f"process {pid} ended before it served ({exit_code})")

    def _fail_to_start(self, reason: str) -> None:
        """Try again in a moment; end if it is one of the first processes that can't be started."""
        if self._is_announced:
            log.error("no process can be started, which is tried again: %s", reason)
            self._start_at_s = time.monotonic() + START_AGAIN_S
        else:
            self._failure = reason
            self._stop()

    def _choose_what_to_wait_for(self) -> None:
        """Take connections while they can be handed out; else leave them where the system keeps them."""
        self._is_pausing = time.monotonic() < self._take_at_s
        awaited = READ if self._unhanded is None or self._is_pausing else READ | WRITE
        for child in self._serving:
            key = self._selector.get_key(child.channel)
            if key.events != awaited:
                self._selector.modify(child.channel, awaited, key.data)
        can_be_handed = bool(self._serving) and self._unhanded is None and not self._is_pausing
        are_wanted = self._is_announced and can_be_handed and not self._is_stopping
        if are_wanted and not self._takes_connections:
            self._selector.register(self._listening, READ, self._take)
        elif self._takes_connections and not are_wanted:
            self._selector.unregister(self._listening)
        self._takes_connections = are_wanted

    def _take(self, _: int) -> None:
        try:
            connection, _ = self._listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as problem:
            self._pause(problem)
            return
        if self._is_handed(connection):
            connection.close()
        else:
            self._unhanded = connection

    def _is_handed(self, connection: socket.socket) -> bool:
        """Hand it to the next in turn that has room for it; tell whether there was one."""
        for _ in range(len(self._serving)):
            child = self._serving.popleft()
            try:
                socket.send_fds(child.channel, [HANDED], [connection.fileno()])
            except BlockingIOError:
                self._serving.append(child)
            except OSError as problem:
                if problem.errno in SCARCE:
                    self._serving.append(child)
                    self._pause(problem)
                    return False
                # else it is about to end, and will be buried
            else:
                self._serving.append(child)
                return True
        return False

    def _pause(self, problem: OSError) -> None:
        """Leave connections where the system keeps them, for a moment."""
        self._scarcity.count(problem.strerror)
        self._take_at_s = time.monotonic() + TRY_AGAIN_S
