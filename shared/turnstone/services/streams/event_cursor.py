"""The events of a turn from a number on, for a client that comes back, whoever knows them: the store or a run here."""

from collections.abc import Callable, Iterable, Iterator
from threading import Lock

from turnstone.domain.refs import TurnRef
from turnstone.domain.turns.events import Numbered, StepStarted, TurnFailed
from turnstone.domain.turns.turns import TurnState, TurnStatus
from turnstone.services.streams.broadcast import Listener, TurnBroadcast
from turnstone.services.streams.replay import doubtful_after, numbered


class DrawnBroadcast(TurnBroadcast):
    """The events for one client, drawn from a run here as the client takes them.

    A client that reads nothing holds no copy of the run's backlog.
    """

    def __init__(self, ref: TurnRef) -> None:
        super().__init__(ref)
        self._running: TurnBroadcast | None = None
        self._source: Listener | None = None
        self._shown: Callable[[Iterable[Numbered]], tuple[Numbered, ...]] = tuple
        self._drawing = Lock()

    def attach(self, running: TurnBroadcast, shown: Callable[[Iterable[Numbered]], tuple[Numbered, ...]]) -> None:
        """Draw from the run from now on; `shown` selects what the client is sent of its events."""
        self._running, self._shown = running, shown
        self._source = running.listen(self._rouse)
        self._rouse()

    def draw(self, heard: int, most: int | None) -> None:
        with self._drawing:
            source = self._source
            while source is not None and not self.is_over and len(self.told) == heard:
                news = source.take(most)
                new = self._shown(news.told)
                with self.lock:
                    self.told += new
                    self.is_over = news.is_last
                if news.is_last:
                    self._leave_run()
                if news.is_last or not news.told:
                    return

    def leave(self, listener: Listener) -> None:
        super().leave(listener)
        self._leave_run()

    def _leave_run(self) -> None:
        if self._running is not None and self._source is not None:
            self._running.leave(self._source)

    def _rouse(self) -> None:
        """Wake the client, because the run has more."""
        with self.lock:
            woken = self._marked_awake()
        for listener in woken:
            listener.wake()


class EventCursor:
    """Tells one client what it has not heard; what it may have heard once already has no number.

    Of a step that is stored the deltas come as one. A client that heard a part of them is told the step again, from its
    start, so that it never has to guess where its part ended.
    """

    def __init__(self, ref: TurnRef, after: int) -> None:
        self.broadcast = DrawnBroadcast(ref)
        self._after = after
        self._up_to = after
        self._is_doubted = False
        self._start: Numbered | None = None
        self._in_order = Lock()

    def tell_state(self, state: TurnState) -> bool:
        """Tell what is stored; return whether more is to come."""
        goes_on = state.status is TurnStatus.IN_PROGRESS
        new = self._new(numbered(state), doubtful_after(state))
        (self.broadcast.publish if goes_on else self.broadcast.close)(*new)
        return goes_on

    def attach(self, running: TurnBroadcast) -> None:
        """Tell what the run here has told and will tell."""
        self.broadcast.publish(*self._new(running.before, running.doubtful_after))
        self.broadcast.attach(running, lambda told: self._new(told, running.doubtful_after))

    def _new(self, known: Iterable[Numbered], doubted: int | None) -> tuple[Numbered, ...]:
        """Return the events to publish of these, which begin with the turn's first or follow those known before."""
        with self._in_order:
            if doubted is not None and not self._is_doubted:
                self._is_doubted = True
                self._up_to = min(self._up_to, doubted)
            return tuple(self._new_in(known))

    def _new_in(self, known: Iterable[Numbered]) -> Iterator[Numbered]:
        for told in known:
            if isinstance(told.event, StepStarted):
                self._start = told
            if told.number is None or isinstance(told.event, TurnFailed):
                yield self._shown(told)  # its number may be one that was told of a step that came to nothing
            elif told.number > self._up_to:
                if told.first is not None and told.first <= self._up_to and self._start is not None:
                    yield self._start._replace(number=None)
                self._up_to = told.number
                yield self._shown(told)

    def _shown(self, told: Numbered) -> Numbered:
        is_new = told.number is not None and told.number > self._after
        return told if is_new else told._replace(number=None)
