"""Threads that never keep a process from ending, for what may wait long for others."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from queue import SimpleQueue
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Literal, TypeVar

Result = TypeVar("Result")


class DaemonThreads:
    """At most so many threads, begun when they are needed; what is more waits for one of them."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._lock = Lock()
        self._threads = 0
        self._free = 0
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def run(self, act: Callable[[], Result]) -> Future[Result]:
        """Have the act done in one of the threads; what it raises is raised where its result is asked for."""
        future: Future[Result] = Future()

        def settle() -> None:
            if future.set_running_or_notify_cancel():
                with _PassedOn(future):
                    future.set_result(act())

        with self._lock:
            has_to_begin = self._free == 0 and self._threads < self._most
            if has_to_begin:
                self._threads += 1
            else:
                self._free -= 1
        self._work.put(settle)
        if has_to_begin:
            Thread(target=self._work_on, name=self._name, daemon=True).start()
        return future

    def _work_on(self) -> None:
        while True:
            self._work.get()()
            with self._lock:
                self._free += 1


class _PassedOn(AbstractContextManager[None]):
    """Passes what is raised in its block on to who waits for the result, whatever it is."""

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Literal[True]:
        if error is not None:
            self._future.set_exception(error)
        return True
