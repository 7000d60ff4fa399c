"""The events of a turn after a number, for a client that reconnects, from the store or a run of this process."""

from collections.abc import Callable, Iterable, Iterator
from threading import Lock

from turnstone.domain.refs import TurnRef
from turnstone.domain.turns.events import Numbered, StepDetailed, StepStarted, TurnFailed
from turnstone.domain.turns.turns import TurnState, TurnStatus
from turnstone.services.streams.broadcast import Received, TurnBroadcast
from turnstone.services.streams.replay import doubtful_after, numbered
from turnstone.services.threads.publisher import Subscriber


class DrawnBroadcast(TurnBroadcast):
    """The events for one client, read from a run of this process at the client's pace.

    A client that reads nothing holds no copy of the run's backlog.
    """

    def __init__(self, ref: TurnRef) -> None:
        super().__init__(ref)
        self._running: TurnBroadcast | None = None
        self._source: Subscriber[Received] | None = None
        self._shown: Callable[[Iterable[Numbered]], tuple[Numbered, ...]] = tuple
        self._drawing = Lock()

    def attach(
        self,
        running: TurnBroadcast,
        shown: Callable[[Iterable[Numbered]], tuple[Numbered, ...]],
        *,
        reads_details: bool = False,
    ) -> None:
        """Draw from the run from now on; `shown` selects the events that the client is sent."""
        self._running, self._shown = running, shown
        self._source = running.subscribe(self._rouse, reads_details=reads_details)
        self._rouse()

    def news_for(self, subscriber: Subscriber[Received], most: int | None) -> Received:
        is_drawn = self._draw(subscriber.taken, most)
        received = super().news_for(subscriber, most)
        return received if is_drawn or received.is_last else received._replace(has_more=True)

    def unsubscribe(self, subscriber: Subscriber[Received]) -> None:
        super().unsubscribe(subscriber)
        self._leave_run()

    def _draw(self, taken: int, most: int | None) -> bool:
        """Fetch the events after the first `taken`, at most `most`; return false without a request to the run.

        Those published here come first, and a run wakes only a reader that has taken all of its news.
        """
        with self._drawing:
            source = self._source
            if source is not None and not self.is_over and len(self.published) > taken:
                return False
            while source is not None and not self.is_over and len(self.published) == taken:
                news = source.take(most)
                new = self._shown(news.numbered)
                with self.lock:
                    self.published += new
                    self.is_over = news.is_last
                if news.is_last:
                    self._leave_run()
                if news.is_last or not (news.numbered or news.has_more):
                    break
        return True

    def _leave_run(self) -> None:
        if self._running is not None and self._source is not None:
            self._running.unsubscribe(self._source)

    def _rouse(self) -> None:
        """Wake the client, because the run has more events."""
        with self.lock:
            woken = self._marked_awake()
        for subscriber in woken:
            subscriber.wake()


class EventCursor:
    """Publishes to one client the events after its last number; events it may have received before have no number.

    The deltas of a stored step come as one. A client that received a part of them gets the step again from its start,
    so that it never has to guess where its part ended.
    """

    def __init__(self, ref: TurnRef, after: int) -> None:
        self.broadcast = DrawnBroadcast(ref)
        self._after = after
        self._up_to = after
        self._is_doubted = False
        self._start: Numbered | None = None
        self._in_order = Lock()

    def publish_state(self, state: TurnState) -> bool:
        """Publish the stored events; return whether more will follow."""
        has_more = state.status is TurnStatus.IN_PROGRESS
        new = self._new(numbered(state), doubtful_after(state))
        (self.broadcast.publish if has_more else self.broadcast.close)(*new)
        return has_more

    def attach(self, running: TurnBroadcast) -> None:
        """Publish the past and future events of a run of this process."""
        self.broadcast.publish(*self._new(running.before, running.doubtful_after))
        self.broadcast.attach(running, lambda events: self._new(events, running.doubtful_after))

    def _new(self, events: Iterable[Numbered], doubted: int | None) -> tuple[Numbered, ...]:
        """Return the events to publish. They begin with the turn's first event, or follow the previous call's."""
        with self._in_order:
            if doubted is not None and not self._is_doubted:
                self._is_doubted = True
                self._up_to = min(self._up_to, doubted)
            return tuple(self._new_in(events))

    def _new_in(self, events: Iterable[Numbered]) -> Iterator[Numbered]:
        for each in events:
            if isinstance(each.event, StepDetailed):
                continue
            if isinstance(each.event, StepStarted):
                self._start = each
            if each.number is None or isinstance(each.event, TurnFailed):
                yield self._shown(each)  # its number may repeat one of a step that was never stored
            elif each.number > self._up_to:
                if each.first is not None and each.first <= self._up_to and self._start is not None:
                    yield self._start._replace(number=None)
                self._up_to = each.number
                yield self._shown(each)

    def _shown(self, event: Numbered) -> Numbered:
        is_new = event.number is not None and event.number > self._after
        return event if is_new else event._replace(number=None)


class WholeCursor:
    """Publishes to one client all events of a turn with their details, for an encoder that selects those to send.

    Once a run of this process takes over, its events are published from the turn's first one, a second time.
    """

    def __init__(self, ref: TurnRef) -> None:
        self.broadcast = DrawnBroadcast(ref)
        self._published = 0

    def publish_state(self, state: TurnState) -> bool:
        """Publish the stored events that are new; return whether more will follow."""
        has_more = state.status is TurnStatus.IN_PROGRESS
        events = numbered(state, is_detailed=True)
        new, self._published = events[self._published :], len(events)
        self.broadcast.doubtful_after = doubtful_after(state)
        (self.broadcast.publish if has_more else self.broadcast.close)(*new)
        return has_more

    def attach(self, running: TurnBroadcast) -> None:
        """Publish the past and future events of a run of this process."""
        self.broadcast.doubtful_after = running.doubtful_after
        self.broadcast.publish(*running.before)
        self.broadcast.attach(running, tuple, reads_details=True)


AnyCursor = EventCursor | WholeCursor
