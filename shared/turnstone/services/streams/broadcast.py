"""The events of a running turn, for however many listen, from the start or from later on."""

from collections.abc import Callable, Iterable, Iterator
from threading import Event, Lock
from typing import NamedTuple

from turnstone.domain.refs import TurnRef
from turnstone.domain.turns.events import Numbered, TurnEvent, TurnFailed
from turnstone.domain.values.content import Restore


class Received(NamedTuple):
    """Events a listener had not heard yet; `is_last` tells that none will follow."""

    told: tuple[Numbered, ...]
    is_last: bool

    @property
    def events(self) -> tuple[TurnEvent, ...]:
        return tuple(told.event for told in self.told)


class Listener:
    """One reader of a broadcast. `wake` is called once, from any thread, when there is something to take."""

    def __init__(self, broadcast: "TurnBroadcast", wake: Callable[[], None]) -> None:
        self._broadcast = broadcast
        self._heard = 0
        self.wake = wake
        self.is_awake = True

    def take(self, most: int | None = None) -> Received:
        """Return what has happened since the last call, the first `most` events of it.

        The next event will wake the listener again; for events that are left, it has to call again.
        """
        self.is_awake = False  # first: an event that comes meanwhile must wake it
        self._broadcast.draw(self._heard, most)
        with self._broadcast.lock:
            end = None if most is None else self._heard + most
            told = tuple(self._broadcast.told[self._heard : end])
            self._heard += len(told)
            is_all = self._heard == len(self._broadcast.told)
            return Received(told, is_all and self._broadcast.is_over)


class TurnBroadcast:
    """Keeps the events of one run of a turn, so that who joins late hears them all.

    Attributes:
        before: the events of earlier runs.
        doubtful_after: the number up to which those who heard earlier runs heard what is stored, None for to the end.
        is_run: a run publishes here, it is not only expected.
        restore: what restores the long texts in JSON that is made of the events, which are all there then; None where
            events have all their texts.
    """

    def __init__(self, ref: TurnRef) -> None:
        self.ref = ref
        self.before: tuple[Numbered, ...] = ()
        self.doubtful_after: int | None = None
        self.is_run = False
        self.restore: Restore | None = None
        self.lock = Lock()
        self.told: list[Numbered] = []
        self.is_over = False
        self._last_number = 0
        self._listeners: list[Listener] = []
        self._was_heard = False

    @property
    def is_left(self) -> bool:
        """Tell whether somebody listened and nobody does any more."""
        with self.lock:
            return self._was_heard and not self._listeners

    @property
    def events(self) -> list[TurnEvent]:
        return [told.event for told in self.told]

    def listen(self, wake: Callable[[], None]) -> Listener:
        """Return a reader that begins with the first event; take() at once, `wake` is called from then on."""
        listener = Listener(self, wake)
        with self.lock:
            self._listeners.append(listener)
            self._was_heard = True
        return listener

    def leave(self, listener: Listener) -> None:
        """Wake the listener no more; it may have left before."""
        with self.lock:
            if listener in self._listeners:
                self._listeners.remove(listener)

    def draw(self, heard: int, most: int | None) -> None:
        """Have ready what follows the first `heard` events, if it is not kept here: some `most` of it at least."""

    def publish(self, *events: TurnEvent | Numbered) -> None:
        """Tell the events; those without a number get the next ones."""
        self._tell(events, is_over=False)

    def close(self, *events: TurnEvent | Numbered) -> None:
        """Publish the last events of this run."""
        self._tell(events, is_over=True)

    def wait(self) -> Iterator[TurnEvent]:
        """Yield every event until the run is over, blocking; for threads that have nothing else to do."""
        ready = Event()
        listener = self.listen(ready.set)
        try:
            while True:
                heard = listener.take()
                yield from heard.events
                if heard.is_last:
                    return
                ready.wait()
                ready.clear()
        finally:
            self.leave(listener)

    def _tell(self, events: Iterable[TurnEvent | Numbered], *, is_over: bool) -> None:
        with self.lock:
            if self.is_over:
                return  # a run that was handed over may find out only later
            self.told += map(self._numbered, events)
            self.is_over = is_over
            woken = self._marked_awake()
        for listener in woken:
            listener.wake()

    def _marked_awake(self) -> list[Listener]:
        """Return the listeners to wake; for who holds the lock."""
        asleep = [listener for listener in self._listeners if not listener.is_awake]
        for listener in asleep:
            listener.is_awake = True
        return asleep

    def _numbered(self, event: TurnEvent | Numbered) -> Numbered:
        if isinstance(event, Numbered):
            self._last_number = event.number or self._last_number
            return event
        if isinstance(event, TurnFailed):
            return Numbered(event, None)  # a notice of this stream, unless it was numbered as the turn's end
        self._last_number += 1
        return Numbered(event, self._last_number)


class Broadcasts:
    """The broadcasts of the turns that this process runs, or that somebody here waits for."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_turn: dict[TurnRef, TurnBroadcast] = {}

    def begin(
        self, ref: TurnRef, before: tuple[Numbered, ...] = (), doubtful_after: int | None = None
    ) -> TurnBroadcast:
        """Return the broadcast a new run publishes to; who already waits for the turn here will hear of it.

        For `before` and `doubtful_after` see there.
        """
        with self._lock:
            waited_for = self._by_turn.get(ref)
            if waited_for is not None and not waited_for.is_run and not before:
                waited_for.is_run = True
                waited_for.doubtful_after = doubtful_after
                return waited_for
            broadcast = self._by_turn[ref] = TurnBroadcast(ref)
            broadcast.is_run = True
            broadcast.before = before
            broadcast.doubtful_after = doubtful_after
        if waited_for is not None and not waited_for.is_run:
            tell_whole(broadcast, waited_for)
        return broadcast

    def expect(self, ref: TurnRef) -> TurnBroadcast:
        """Return the turn's broadcast, to be published to when this process learns how the turn goes on."""
        with self._lock:
            return self._by_turn.setdefault(ref, TurnBroadcast(ref))

    def find(self, ref: TurnRef) -> TurnBroadcast | None:
        with self._lock:
            return self._by_turn.get(ref)

    def all(self) -> tuple[TurnBroadcast, ...]:
        with self._lock:
            return tuple(self._by_turn.values())

    def tell_waiting(self, ref: TurnRef, *events: TurnEvent | Numbered) -> None:
        """Tell those who wait here for a turn that no run of this process publishes; a run is not interrupted."""
        with self._lock:
            broadcast = self._by_turn.get(ref)
            if broadcast is None or broadcast.is_run:
                return
            del self._by_turn[ref]
        broadcast.close(*events)

    def end(self, broadcast: TurnBroadcast, *events: TurnEvent | Numbered) -> None:
        """Publish the run's last events and forget it; whoever comes later reads the store."""
        with self._lock:
            if self._by_turn.get(broadcast.ref) is broadcast:
                del self._by_turn[broadcast.ref]
        broadcast.close(*events)


def tell_whole(running: TurnBroadcast, whole: TurnBroadcast) -> None:
    """Have the second tell the turn from its start: what earlier runs told, then what this one tells."""
    whole.publish(*running.before)
    in_order = Lock()

    def pass_on() -> None:
        with in_order:
            heard = listener.take()
            if heard.is_last and not whole.is_over:
                running.leave(listener)
                whole.close(*heard.told)
            else:
                whole.publish(*heard.told)

    listener = running.listen(pass_on)
    pass_on()
