"""The events of a running turn, for however many listen, from the start or from later on."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from threading import Event, Lock

from turnstone.domain.events import TurnEvent
from turnstone.domain.sessions import TurnRef


@dataclass(frozen=True, slots=True)
class Heard:
    """Events a listener had not heard yet; `is_last` tells that none will follow."""

    events: tuple[TurnEvent, ...]
    is_last: bool


class Listener:
    """One reader of a broadcast. `wake` is called once, from any thread, when there is something to take."""

    def __init__(self, broadcast: "TurnBroadcast", wake: Callable[[], None]) -> None:
        self._broadcast = broadcast
        self._heard = 0
        self.wake = wake
        self.is_awake = True

    def take(self) -> Heard:
        """Return what has happened since the last call; the next event will wake the listener again."""
        with self._broadcast.lock:
            events = tuple(self._broadcast.events[self._heard :])
            self._heard += len(events)
            self.is_awake = False
            return Heard(events, self._broadcast.is_over)


class TurnBroadcast:
    """Keeps the events of one run of a turn, so that who joins late hears them all.

    `before` holds the events of earlier runs; `is_run` tells that a run publishes here, not only that one is expected.
    """

    def __init__(self, ref: TurnRef) -> None:
        self.ref = ref
        self.before: tuple[TurnEvent, ...] = ()
        self.is_run = False
        self.lock = Lock()
        self.events: list[TurnEvent] = []
        self.is_over = False
        self._listeners: list[Listener] = []

    def listen(self, wake: Callable[[], None]) -> Listener:
        """Return a reader that begins with the first event; take() at once, `wake` is called from then on."""
        listener = Listener(self, wake)
        with self.lock:
            self._listeners.append(listener)
        return listener

    def leave(self, listener: Listener) -> None:
        with self.lock:
            self._listeners.remove(listener)

    def publish(self, *events: TurnEvent) -> None:
        self._tell(events, is_over=False)

    def close(self, *events: TurnEvent) -> None:
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

    def _tell(self, events: Iterable[TurnEvent], *, is_over: bool) -> None:
        with self.lock:
            if self.is_over:
                return  # a run that was handed over may find out only later
            self.events += events
            self.is_over = is_over
            asleep = [listener for listener in self._listeners if not listener.is_awake]
            for listener in asleep:
                listener.is_awake = True
        for listener in asleep:
            listener.wake()


class Broadcasts:
    """The broadcasts of the turns that this process runs, or that somebody here waits for."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_turn: dict[TurnRef, TurnBroadcast] = {}

    def begin(self, ref: TurnRef, before: tuple[TurnEvent, ...] = ()) -> TurnBroadcast:
        """Return the broadcast a new run publishes to; who already waits for the turn here will hear of it.

        `before` holds the events of earlier runs.
        """
        with self._lock:
            waited_for = self._by_turn.get(ref)
            if waited_for is not None and not waited_for.is_run and not before:
                waited_for.is_run = True
                return waited_for
            broadcast = self._by_turn[ref] = TurnBroadcast(ref)
            broadcast.is_run = True
            broadcast.before = before
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

    def tell_waiting(self, ref: TurnRef, *events: TurnEvent) -> None:
        """Tell those who wait here for a turn that no run of this process publishes; a run is not interrupted."""
        with self._lock:
            broadcast = self._by_turn.get(ref)
            if broadcast is None or broadcast.is_run:
                return
            del self._by_turn[ref]
        broadcast.close(*events)

    def end(self, broadcast: TurnBroadcast, *events: TurnEvent) -> None:
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
                whole.close(*heard.events)
            else:
                whole.publish(*heard.events)

    listener = running.listen(pass_on)
    pass_on()
