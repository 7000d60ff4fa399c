"""Broadcasts of the events of running turns, each with any number of subscribers."""

from collections.abc import Callable, Iterable, Iterator
from threading import Event, Lock
from typing import NamedTuple

from turnstone.domain.refs import TurnRef
from turnstone.domain.turns.events import Numbered, StepDetailed, TurnEvent, TurnFailed
from turnstone.domain.values.content import Restore
from turnstone.services.threads.publisher import Publisher, Subscriber

# a failure is a notice of one stream, unless it was numbered as the end
UNNUMBERED = frozenset((TurnFailed, StepDetailed))


class Received(NamedTuple):
    """Events that a subscriber had not taken yet; for `is_last` and `has_more` see `News`."""

    numbered: tuple[Numbered, ...]
    is_last: bool
    has_more: bool = False

    @property
    def is_empty(self) -> bool:
        return not self.numbered

    @property
    def events(self) -> tuple[TurnEvent, ...]:
        return tuple(each.event for each in self.numbered)


class TurnBroadcast(Publisher[Received]):
    """The events of one run of a turn, kept so that a late subscriber receives all of them.

    Details of steps are only for subscribers that read details: they do not wake the others.

    Attributes:
        before: the events of earlier runs.
        doubtful_after: last event number that every subscriber of earlier runs can rely on, None for all of them.
        is_run: whether a run publishes here; false while one is only expected.
        restore: restores the long texts in JSON made of the events, which are complete then; None where the events
            have all their texts.
        abandon: stops the run of a turn that is not stored, once its client has left; None for a stored one, which runs
            on and which another process can continue.
    """

    def __init__(self, ref: TurnRef, abandon: Callable[[TurnRef], None] | None = None) -> None:
        super().__init__()
        self.ref = ref
        self.abandon = abandon
        self.before: tuple[Numbered, ...] = ()
        self.doubtful_after: int | None = None
        self.is_run = False
        self.restore: Restore | None = None
        self.published: list[Numbered] = []
        self._last_number = 0
        self._details = 0

    @property
    def is_stored(self) -> bool:
        """Whether the turn is stored, so that another process can continue it."""
        return self.abandon is None

    @property
    def events(self) -> list[TurnEvent]:
        return [each.event for each in self.published]

    def news_for(self, subscriber: Subscriber[Received], most: int | None) -> Received:
        with self.lock:
            end = None if most is None else subscriber.taken + most
            new = tuple(self.published[subscriber.taken : end])
            subscriber.taken += len(new)
            is_all = subscriber.taken == len(self.published)
            has_more = len(new) == most
            if self._details and not subscriber.reads_details:
                new = tuple(each for each in new if not isinstance(each.event, StepDetailed))
            return Received(new, is_all and self.is_over, has_more)

    def publish(self, *events: TurnEvent | Numbered) -> None:
        """Publish the events; events without a number get the next numbers."""
        self._emit(events, is_over=False)

    def close(self, *events: TurnEvent | Numbered) -> None:
        """Publish the last events of this run."""
        self._emit(events, is_over=True)

    def wait(self) -> Iterator[TurnEvent]:
        """Yield every event until the run is over. Blocks its thread."""
        ready = Event()
        subscriber = self.subscribe(ready.set)
        try:
            while True:
                received = subscriber.take()
                yield from received.events
                if received.is_last:
                    return
                ready.wait()
                ready.clear()
        finally:
            self.unsubscribe(subscriber)

    def _emit(self, events: Iterable[TurnEvent | Numbered], *, is_over: bool) -> None:
        with self.lock:
            if self.is_over:
                return  # a run that was handed off may publish later
            count, details = len(self.published), self._details
            self.published += map(self._numbered, events)
            self.is_over = is_over
            if not is_over and 0 < self._details - details == len(self.published) - count:
                woken = self._marked_awake(only_details=True)
            else:
                woken = self._marked_awake()
        for subscriber in woken:
            subscriber.wake()

    def _numbered(self, event: TurnEvent | Numbered) -> Numbered:
        if isinstance(event, Numbered):
            self._last_number = event.number or self._last_number
            self._details += isinstance(event.event, StepDetailed)
            return event
        if type(event) in UNNUMBERED:  # isinstance is slow with a pydantic model
            self._details += isinstance(event, StepDetailed)
            return Numbered(event, None)
        self._last_number += 1
        return Numbered(event, self._last_number)


class Broadcasts:
    """The broadcasts of the turns that this process runs, or whose events its requests wait for."""

    def __init__(self, abandon: Callable[[TurnRef], None] | None = None) -> None:
        """Take what stops the run of a turn that is not stored; None where the turns are."""
        self._abandon = abandon
        self._lock = Lock()
        self._by_turn: dict[TurnRef, TurnBroadcast] = {}

    def begin(
        self, ref: TurnRef, before: tuple[Numbered, ...] = (), doubtful_after: int | None = None
    ) -> TurnBroadcast:
        """Return the broadcast of a new run; requests that already wait for the turn receive its events.

        For `before` and `doubtful_after` see `TurnBroadcast`.
        """
        with self._lock:
            waited_for = self._by_turn.get(ref)
            if waited_for is not None and not waited_for.is_run and not before:
                waited_for.is_run = True
                waited_for.doubtful_after = doubtful_after
                return waited_for
            broadcast = self._by_turn[ref] = TurnBroadcast(ref, self._abandon)
            broadcast.is_run = True
            broadcast.before = before
            broadcast.doubtful_after = doubtful_after
        if waited_for is not None and not waited_for.is_run:
            forward_whole(broadcast, waited_for)
        return broadcast

    def expect(self, ref: TurnRef) -> TurnBroadcast:
        """Return the turn's broadcast, for events that another process stores."""
        with self._lock:
            return self._by_turn.setdefault(ref, TurnBroadcast(ref))

    def find(self, ref: TurnRef) -> TurnBroadcast | None:
        with self._lock:
            return self._by_turn.get(ref)

    def all(self) -> tuple[TurnBroadcast, ...]:
        with self._lock:
            return tuple(self._by_turn.values())

    def notify_waiting(self, ref: TurnRef, *events: TurnEvent | Numbered) -> None:
        """Publish to the requests that wait for a turn without a run in this process; a run is not interrupted."""
        with self._lock:
            broadcast = self._by_turn.get(ref)
            if broadcast is None or broadcast.is_run:
                return
            del self._by_turn[ref]
        broadcast.close(*events)

    def end(self, broadcast: TurnBroadcast, *events: TurnEvent | Numbered) -> None:
        """Publish the run's last events and remove its broadcast; later requests read the store."""
        with self._lock:
            if self._by_turn.get(broadcast.ref) is broadcast:
                del self._by_turn[broadcast.ref]
        broadcast.close(*events)


def forward_whole(running: TurnBroadcast, whole: TurnBroadcast) -> None:
    """Copy `running.before` into `whole`, then forward live events."""
    whole.publish(*running.before)
    in_order = Lock()

    def forward() -> None:
        with in_order:
            received = subscriber.take()
            if received.is_last and not whole.is_over:
                running.unsubscribe(subscriber)
                whole.close(*received.numbered)
            else:
                whole.publish(*received.numbered)

    subscriber = running.subscribe(forward, reads_details=True)
    forward()
