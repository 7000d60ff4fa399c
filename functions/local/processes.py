"""Several worker processes at one address: this process accepts the connections and passes them on in turns.

`functions/local/worker.py` is the program of the workers. A channel leads to each: connections go one way, the
worker's readiness or its error the other. Each end of the channel notices the death of the other.
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
PASSED = b"c"  # accompanies each connection, because a descriptor alone can't be sent
BACKLOG = 2_048
CHANNEL_BYTES = 16_384  # some twenty connections: the system limits those in transit between processes, too
START_AGAIN_S = 1.0  # after a process could not be replaced
SIGNALS = (signal.SIGINT, signal.SIGTERM)
KILLED_AFTER_S = MARGIN_S + 1.0  # after the drain, when its own last resort should have ended it
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
log = logging.getLogger(__name__)


class NotStarted(Exception):
    """A worker can't serve; the message states the reason."""


class _Child:
    """A worker process, serving or about to."""

    def __init__(self) -> None:
        self.channel, theirs = socket.socketpair()
        self.channel.setblocking(False)
        self.channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, CHANNEL_BYTES)
        self.reason = ""
        self.has_served = False
        command = [sys.executable, "-P", "-m", WORKER, str(theirs.fileno())]
        # a terminal sends Ctrl-C to all processes that it started, but this process decides when the workers end
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()])  # noqa: S603 (constant words)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()


class Processes:
    """Starts workers, distributes the connections, and replaces workers that die."""

    def __init__(
        self, listening: socket.socket, number: int, announce: Callable[[], None], drain_seconds: float
    ) -> None:
        """Prepare the workers.

        Args:
            listening: a bound socket, on which nothing listens before all workers serve.
            number: of workers.
            announce: called once, when all workers serve.
            drain_seconds: time for the running turns of a worker to finish when it stops.
        """
        self._listening = listening
        self._number = number
        self._announce = announce
        self._selector = selectors.DefaultSelector()
        self._children: list[_Child] = []
        self._serving: deque[_Child] = deque()
        self._pending: socket.socket | None = None
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
        """Serve until a signal to stop, and until all workers have ended.

        Raises:
            NotStarted: one of the first workers can't serve.
        """
        self._listening.setblocking(False)
        with self._receiving_signals():
            while not self._is_stopping or self._children:
                self._start_missing()
                for key, events in self._selector.select(self._longest_wait_s()):
                    key.data(events)
                self._kill_late()
                self._select_events()
        if self._failure is not None:
            raise NotStarted(self._failure)

    @contextmanager
    def _receiving_signals(self) -> Iterator[None]:
        received, written = socket.socketpair()
        with received, written:
            written.setblocking(False)
            self._selector.register(received, READ, lambda _: self._signal(received.recv(1)))
            signal.set_wakeup_fd(written.fileno())
            for number in SIGNALS:
                signal.signal(number, lambda *_: None)
            yield

    def _signal(self, number: bytes) -> None:
        if not self._is_stopping:
            self._stop()
        elif number[0] == signal.SIGINT:  # a second Ctrl-C: the operator does not wait
            for child in self._children:
                child.process.kill()

    def _stop(self) -> None:
        self._is_stopping = True
        self._stop_by_s = time.monotonic() + self._stop_within_s
        self._last_resort.arm()
        self._select_events()
        self._listening.close()
        if self._pending is not None:
            self._pending.close()
            self._pending = None
        for child in self._children:
            child.process.terminate()
            child.process.send_signal(signal.SIGCONT)  # a stopped process would not end

    def _kill_late(self) -> None:
        """Kill the workers that have not ended in time, such as stopped or hanging ones."""
        if self._stop_by_s is None or time.monotonic() < self._stop_by_s:
            return
        self._stop_by_s = None
        for child in self._children:
            log.warning("worker process %d did not end in time and is killed", child.process.pid)
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
            self._selector.register(child.channel, READ, partial(self._on_channel, child))

    def _longest_wait_s(self) -> float | None:
        if self._stop_by_s is not None:
            return max(0.0, self._stop_by_s - time.monotonic())
        if self._is_stopping:
            return None
        awaited_s = [self._start_at_s] if len(self._children) < self._number else []
        if self._is_pausing:
            awaited_s.append(self._take_at_s)
        return max(0.0, min(awaited_s) - time.monotonic()) if awaited_s else None

    def _on_channel(self, child: _Child, events: int) -> None:
        if events & WRITE and self._pending is not None and self._try_pass(self._pending):
            self._pending.close()
            self._pending = None
        if events & READ:
            self._receive(child)

    def _receive(self, child: _Child) -> None:
        try:
            word = child.channel.recv(1_024)
        except ConnectionResetError:
            word = b""  # it died before it took all connections from the channel
        if not word:
            self._remove(child)
        elif word == SERVES:
            child.has_served = True
            self._serving.append(child)
            if not self._is_announced and len(self._serving) == self._number:
                self._listening.listen(BACKLOG)
                self._announce()
                self._is_announced = True
        else:
            child.reason = word.decode()

    def _remove(self, child: _Child) -> None:
        """Remove a worker that has ended; another replaces it, unless it was one of the first and never served."""
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
            log.warning("worker process %d ended (%d) and is replaced", pid, exit_code)
            return
        self._fail_to_start(child.reason or f"process {pid} ended before it served ({exit_code})")

    def _fail_to_start(self, reason: str) -> None:
        """Retry after a pause; stop if it is one of the first workers."""
        if self._is_announced:
            log.error("no worker process can be started, retrying: %s", reason)
            self._start_at_s = time.monotonic() + START_AGAIN_S
        else:
            self._failure = reason
            self._stop()

    def _select_events(self) -> None:
        """Accept connections while a worker can take them; else leave them in the backlog."""
        self._is_pausing = time.monotonic() < self._take_at_s
        awaited = READ if self._pending is None or self._is_pausing else READ | WRITE
        for child in self._serving:
            key = self._selector.get_key(child.channel)
            if key.events != awaited:
                self._selector.modify(child.channel, awaited, key.data)
        has_taker = bool(self._serving) and self._pending is None and not self._is_pausing
        accepts = self._is_announced and has_taker and not self._is_stopping
        if accepts and not self._takes_connections:
            self._selector.register(self._listening, READ, self._take)
        elif self._takes_connections and not accepts:
            self._selector.unregister(self._listening)
        self._takes_connections = accepts

    def _take(self, _: int) -> None:
        try:
            connection, _ = self._listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as problem:
            self._pause(problem)
            return
        if self._try_pass(connection):
            connection.close()
        else:
            self._pending = connection

    def _try_pass(self, connection: socket.socket) -> bool:
        """Pass the connection to the next worker with room for it; return whether there was one."""
        for _ in range(len(self._serving)):
            child = self._serving.popleft()
            try:
                socket.send_fds(child.channel, [PASSED], [connection.fileno()])
            except BlockingIOError:
                self._serving.append(child)
            except OSError as problem:
                if problem.errno in SCARCE:
                    self._serving.append(child)
                    self._pause(problem)
                    return False
                # else the worker is about to end, and will be removed
            else:
                self._serving.append(child)
                return True
        return False

    def _pause(self, problem: OSError) -> None:
        """Leave connections in the backlog for a moment."""
        self._scarcity.count(problem.strerror)
        self._take_at_s = time.monotonic() + TRY_AGAIN_S
