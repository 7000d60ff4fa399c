"""Daemon threads, which never delay the end of the process, for work that may wait long for other services."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TypeVar

from turnstone.domain.values.outcome import Raised, guarded

Result = TypeVar("Result")


class DaemonThreads:
    """A bounded pool of threads, begun when they are needed; further work waits for a free one.

    Each owner of work has a part of them at most, so that an owner of slow work leaves threads to all others.
    Once the pool is referred to nowhere and its work is done, its threads end.
    """

    def __init__(self, most: int, name: str, most_for_one: int | None = None) -> None:
        """Begin no thread yet; without `most_for_one` an owner may have all of them."""
        self._most = most
        self._most_for_one = most if most_for_one is None else most_for_one
        self._name = name
        self._lock = Lock()
        self._threads = 0
        self._free = 0  # negative while work waits
        # each piece of work refers to the pool, which so stays until it is done; None ends a thread
        self._work: SimpleQueue[tuple[DaemonThreads, str, Callable[[], None]] | None] = SimpleQueue()
        self._busy_for: defaultdict[str, int] = defaultdict(int)
        self._waiting_for: defaultdict[str, deque[Callable[[], None]]] = defaultdict(deque)

    def __del__(self) -> None:
        for _ in range(self._threads):
            self._work.put(None)

    def run(self, act: Callable[[], Result], on_behalf_of: str = "") -> Future[Result]:
        """Run the act in one of the threads; its exception is raised by the future's result()."""
        future: Future[Result] = Future()

        def settle() -> None:
            if future.set_running_or_notify_cancel():
                outcome = guarded(act)
                if isinstance(outcome, Raised):
                    future.set_exception(outcome.error)
                else:
                    future.set_result(outcome.value)

        with self._lock:
            if self._busy_for[on_behalf_of] < self._most_for_one:
                self._busy_for[on_behalf_of] += 1
                self._free -= 1
                self._work.put((self, on_behalf_of, settle))
            else:
                self._waiting_for[on_behalf_of].append(settle)
            has_to_begin = self._free < 0 and self._threads < self._most
            if has_to_begin:
                self._threads += 1
                self._free += 1
        if has_to_begin:
            self._begin()
        return future

    def _begin(self) -> None:
        try:
            Thread(target=_work_on, args=(self._work,), name=self._name, daemon=True).start()
        except RuntimeError:  # the machine has no more threads now: the work waits for one that ends its own
            with self._lock:
                self._threads -= 1
                self._free -= 1

    def _done(self, on_behalf_of: str) -> None:
        with self._lock:
            self._free += 1
            self._next_for(on_behalf_of)

    def _next_for(self, on_behalf_of: str) -> None:
        """Queue the next act of an owner that has reached its part of the threads."""
        waiting = self._waiting_for.get(on_behalf_of)
        if waiting:
            self._free -= 1
            self._work.put((self, on_behalf_of, waiting.popleft()))
            return
        self._waiting_for.pop(on_behalf_of, None)
        self._busy_for[on_behalf_of] -= 1
        if not self._busy_for[on_behalf_of]:
            del self._busy_for[on_behalf_of]


def _work_on(work: SimpleQueue[tuple[DaemonThreads, str, Callable[[], None]] | None]) -> None:
    while (taken := work.get()) is not None:
        pool, on_behalf_of, settle = taken
        settle()
        pool._done(on_behalf_of)
        del taken, settle, pool  # while the thread waits, it holds neither the memory of an act nor the pool
