"""A lock of a folder that processes queue for, with a timeout.

flock has no timeout: a suspended process that holds the lock would block the threads of every other.
"""

from __future__ import annotations

import fcntl
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread

_ALONE = fcntl.LOCK_EX


class FolderLock:
    """The lock of a folder, for one thread of this process at a time. The system frees it when the process dies."""

    def __init__(self, folder: Path) -> None:
        """Open the folder. Raises OSError."""
        self._waiter = _Waiter(os.open(folder, os.O_RDONLY | os.O_CLOEXEC))
        self.take, self.release = self._waiter.take, self._waiter.release_lock
        self.close = weakref.finalize(self, self._waiter.close)

    @contextmanager
    def held(self, timeout_s: float) -> Iterator[None]:
        """Hold the lock within the block.

        Raises:
            TimeoutError: another process holds it for that long.
        """
        self.take(timeout_s)
        try:
            yield
        finally:
            self.release()


class _Waiter:
    """This process's position in the queue.

    While the lock is taken, a thread waits for it in the system's queue. A caller that times out leaves the thread
    there, and the next caller takes over its position; a lock granted without a waiting caller is released.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._changing = Lock()
        self._waits: SimpleQueue[bool] = SimpleQueue()
        self._thread: Thread | None = None
        self._is_waiting = False
        self._is_awaited = False
        self._granted = Lock()
        self._granted.acquire()

    def take(self, timeout_s: float) -> None:
        """Take the lock; the caller has to release it. Raises TimeoutError as `held` does."""
        with self._changing:
            if not self._is_waiting:
                if self._try_now():
                    return
                self._begin_to_wait()
            self._is_awaited = True
        if self._granted.acquire(timeout=max(0.0, timeout_s)):
            return
        with self._changing:
            self._is_awaited = False
            if not self._granted.acquire(blocking=False):
                raise TimeoutError("another process has been writing for too long; is it stopped, or does it hang?")

    def release_lock(self) -> None:
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Leave the queue; the thread releases a lock granted later."""
        if self._thread is None:
            os.close(self._descriptor)
        else:
            self._waits.put(False)

    def _try_now(self) -> bool:
        """Take the lock if it is free; return whether it was."""
        try:
            fcntl.flock(self._descriptor, _ALONE | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _begin_to_wait(self) -> None:
        if self._thread is None:
            thread = Thread(target=self._wait_for_it, name="folder-lock", daemon=True)
            try:
                thread.start()
            except RuntimeError as exc:
                raise TimeoutError("another process is writing, and the machine has no thread left to wait") from exc
            self._thread = thread
        self._is_waiting = True
        self._waits.put(True)

    def _wait_for_it(self) -> None:
        while self._waits.get():
            fcntl.flock(self._descriptor, _ALONE)
            with self._changing:
                self._is_waiting = False
                if self._is_awaited:
                    self._is_awaited = False
                    self._granted.release()
                else:
                    self.release_lock()
        os.close(self._descriptor)
