"""Waiting for what is done in another thread, for as long as it may take and somebody wants it."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from threading import Event
from typing import Generic, TypeVar

from turnstone.domain.values.cancellation import StopSignal
from turnstone.services.threads.daemon_threads import DaemonThreads

Answer = TypeVar("Answer")


class Unanswered(Exception):
    """There is no answer, and nobody waits for one any more."""


class Pending(Generic[Answer]):
    """Something that was asked. It is settled when it has been answered, or need not be any more."""

    def __init__(self) -> None:
        self.stop = StopSignal()
        self._answer: Future[Answer] = Future()
        self._is_settled = Event()
        self._begun_at = 0.0

    def begin(self, threads: DaemonThreads, act: Callable[[], Answer], on_behalf_of: str = "") -> None:
        """Have it done in one of the threads; not at all if nobody wants it any more when there is one."""

        def act_if_wanted() -> Answer:
            if self.stop.is_set:
                raise Unanswered("the request was cancelled")
            return act()

        self._begun_at = time.monotonic()
        self._answer = threads.run(act_if_wanted, on_behalf_of)
        self._answer.add_done_callback(lambda _: self._is_settled.set())

    def fail(self, error: Exception) -> None:
        """Have the error raised to who waits: it could not even be begun."""
        self._answer.set_exception(error)

    def answer(self, timeout_s: float) -> Answer:
        """Return the answer, or raise what came of it.

        Args:
            timeout_s: how long it may take from when it was begun.

        Raises:
            Unanswered: it took longer, or nobody wants it.
        """
        if not self._answer.done():
            self._is_settled.wait(max(0.0, self._begun_at + timeout_s - time.monotonic()))
        if not self._answer.done():
            why = "the request was cancelled" if self.stop.is_set else "it took too long"
            self.stop.set()
            raise Unanswered(why)
        return self._answer.result()

    def give_up(self) -> None:
        """Tell who does it that nobody wants it any more, and who waits not to."""
        self.stop.set()
        self._is_settled.set()


@contextmanager
def awaiting(asked: Sequence[Pending[Answer]], stop: StopSignal | None) -> Generator[None, None, None]:
    """Within the block, give all of them up when the signal is given; behind it, those that are left."""

    def give_up() -> None:
        for one in asked:
            one.give_up()

    with ExitStack() as stack:
        if stop is not None:
            stack.enter_context(stop.heeded_by(give_up))
        stack.callback(give_up)
        yield
