"""Requests that wait for the end of their session's running turn, without a thread, in the order of arrival."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from threading import Lock, local
from typing import TypeVar

from turnstone.domain.errors import Stopping, StoreUnavailable, TurnAwaited, TurnRunning
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.sessions.sessions import LockState
from turnstone.ports.system import Clock
from turnstone.services.streams.broadcast import Received
from turnstone.services.streams.following import Following
from turnstone.services.threads.publisher import Subscriber
from turnstone.store.sessions.turns import TurnStore

log = logging.getLogger(__name__)
Result = TypeVar("Result")
MOST_WAITING = 256  # of this process
MOST_OF_A_TENANT = 64


class SessionWaiter:
    """A request in the queue of a session. `settle` is called from any thread when it may be worth another try.

    Attributes:
        is_ready: whether the request is the first of its session, and the turn it waited for has ended.
        is_stopped: whether the server stops.
    """

    def __init__(self, turn: TurnRef, settle: Callable[[SessionWaiter], None]) -> None:
        self.turn = turn
        self.settle = settle
        self.is_ready = False
        self.is_stopped = False
        self.has_left = False
        self.leave_run: Callable[[], None] = lambda: None


class SessionQueues:
    """The waiting requests of this process, by session."""

    def __init__(self, turns: TurnStore, following: Following, clock: Clock) -> None:
        self._turns = turns
        self._clock = clock
        self._following = following
        self._lock = Lock()
        self._queues: dict[SessionRef, deque[SessionWaiter]] = {}
        self._is_stopping = False
        self._of_request = local()

    @property
    def waiting(self) -> int:
        """Number of waiting requests."""
        with self._lock:
            return sum(map(len, self._queues.values()))

    def refuse_overtaking(self, ref: SessionRef, patience_s: float) -> None:
        """Raise TurnAwaited if other requests wait for the session, and this one is not the first of them."""
        with self._lock:
            queue = self._queues.get(ref)
            first = queue[0] if queue else None
        if first is not None and first is not getattr(self._of_request, "waiter", None):
            raise TurnAwaited(first.turn, patience_s)

    def join(self, refused: TurnAwaited, settle: Callable[[SessionWaiter], None]) -> SessionWaiter:
        """Wait in the queue of the session; `settle` is called once the request is its first and the turn has ended.

        The caller has to `leave`.

        Raises:
            TurnRunning: too many requests wait, in this process or of this tenant.
            Stopping: the server stops.
        """
        turn: TurnRef = refused.ref
        waiter = SessionWaiter(turn, settle)
        with self._lock:
            self._refuse_beyond_limits(turn)
            queue = self._queues.setdefault(turn.session, deque())
            queue.append(waiter)
            is_first = len(queue) == 1
        if is_first:
            self._watch(waiter)
        return waiter

    def wait_again(self, waiter: SessionWaiter, refused: TurnAwaited) -> None:
        """Wait for another turn, in the same position: a turn that no request of this process opened came first."""
        waiter.turn = refused.ref
        waiter.is_ready = False
        self._watch(waiter)

    def leave(self, waiter: SessionWaiter) -> None:
        """Leave the queue; the next request of the session is the first then."""
        with self._lock:
            waiter.has_left = True
            queue = self._queues[waiter.turn.session]
            was_first = queue[0] is waiter
            queue.remove(waiter)
            following = queue[0] if queue else None
            if not queue:
                del self._queues[waiter.turn.session]
        waiter.leave_run()
        if was_first and following is not None:
            self._watch(following)

    def within(self, waiter: SessionWaiter, act: Callable[[], Result]) -> Result:
        """Return the result of `act`, in which the waiter's session may be used before all others that wait for it."""
        self._of_request.waiter = waiter
        try:
            return act()
        finally:
            del self._of_request.waiter

    def stop(self) -> None:
        """Let no request wait any longer."""
        with self._lock:
            self._is_stopping = True
            stopped = [waiter for queue in self._queues.values() for waiter in queue]
        for waiter in stopped:
            waiter.is_stopped = True
            waiter.settle(waiter)

    def _refuse_beyond_limits(self, turn: TurnRef) -> None:
        if self._is_stopping:
            raise Stopping(MOST_WAITING)
        all_waiting = sum(map(len, self._queues.values()))
        own = sum(len(queue) for ref, queue in self._queues.items() if ref.tenant == turn.tenant)
        if all_waiting >= MOST_WAITING or own >= MOST_OF_A_TENANT:
            raise TurnRunning(turn.turn_id)

    def _watch(self, waiter: SessionWaiter) -> None:
        """Settle the waiter once its turn has ended: by the run of this process, or by polling the store."""
        running = self._following.broadcasts.find(waiter.turn)
        if running is not None and running.is_run:
            waiter.leave_run()
            subscriber = running.subscribe(lambda: self._notice(waiter, subscriber))
            waiter.leave_run = lambda: running.unsubscribe(subscriber)
            self._notice(waiter, subscriber)
            return
        self._following.poll(waiter.turn, lambda: self._may_wait_on(waiter), lambda _: self._settle(waiter))

    def _notice(self, waiter: SessionWaiter, subscriber: Subscriber[Received]) -> None:
        if subscriber.take().is_last:
            waiter.leave_run()
            self._settle(waiter)

    def _may_wait_on(self, waiter: SessionWaiter) -> bool:
        """Return whether the turn still holds its session; settle the waiter otherwise."""
        if waiter.has_left:
            return False
        try:
            lock = self._turns.lock_of(waiter.turn)
        except StoreUnavailable as unavailable:
            log.warning("polling turn %s failed, will be tried again: %s", waiter.turn.turn_id, unavailable)
            return True
        is_held = lock is not None and lock.order == waiter.turn.turn_id
        if lock is not None and is_held and (lock.state is LockState.QUEUED or lock.is_live(self._clock.now())):
            return True
        self._settle(waiter)
        return False

    def _settle(self, waiter: SessionWaiter) -> None:
        waiter.is_ready = True
        waiter.settle(waiter)
