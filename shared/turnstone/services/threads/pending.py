"""Wait for work in another thread, until a timeout or a cancellation."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from threading import Event
from typing import Generic, TypeVar

from turnstone.domain.values.cancellation import StopSignal
from turnstone.domain.values.outcome import Raised, guarded
from turnstone.services.threads.daemon_threads import DaemonThreads

Answer = TypeVar("Answer")


class Unanswered(Exception):
    """There is no answer: the wait timed out or was cancelled."""


class Pending(Generic[Answer]):
    """The pending answer of another thread, settled once answered or cancelled."""

    def __init__(self) -> None:
        self.stop = StopSignal()
        self._answer: Future[Answer] = Future()
        self._is_settled = Event()
        self._begun_at = 0.0

    def begin(self, threads: DaemonThreads, act: Callable[[], Answer], on_behalf_of: str = "") -> None:
        """Submit `act`; it is skipped if cancelled before a thread is free."""

        def act_unless_cancelled() -> Answer:
            if self.stop.is_set:
                raise Unanswered("the request was cancelled")
            return act()

        self._begun_at = time.monotonic()
        self._answer = threads.run(act_unless_cancelled, on_behalf_of)
        self._answer.add_done_callback(lambda _: self._is_settled.set())

    def run(self, act: Callable[[], Answer]) -> None:
        """Run `act` in this thread, because it waits for nothing."""
        outcome = guarded(act)
        if isinstance(outcome, Raised):
            self._answer.set_exception(outcome.error)
        else:
            self._answer.set_result(outcome.value)

    def fail(self, error: Exception) -> None:
        """Set the error that `answer` raises, for an act that could not begin."""
        self._answer.set_exception(error)

    def answer(self, timeout_s: float) -> Answer:
        """Return the answer, or raise the error of the act.

        Args:
            timeout_s: time limit in seconds since it began.

        Raises:
            Unanswered: it took longer, or was cancelled.
        """
        if not self._answer.done():
            self._is_settled.wait(max(0.0, self._begun_at + timeout_s - time.monotonic()))
        if not self._answer.done():
            why = "the request was cancelled" if self.stop.is_set else "it took too long"
            self.stop.set()
            raise Unanswered(why)
        return self._answer.result()

    def cancel(self) -> None:
        """Cancel: signal the worker to stop and release the waiter."""
        self.stop.set()
        self._is_settled.set()


@contextmanager
def awaiting(pending: Sequence[Pending[Answer]], stop: StopSignal | None) -> Generator[None, None, None]:
    """Cancel all pending results when the signal is set within the block, and the remaining ones after it."""

    def cancel() -> None:
        for one in pending:
            one.cancel()

    with ExitStack() as stack:
        if stop is not None:
            stack.enter_context(stop.heeded_by(cancel))
        stack.callback(cancel)
        yield
