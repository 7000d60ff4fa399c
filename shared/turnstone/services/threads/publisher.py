"""Publishers, and their subscribers, each of which is woken once between two calls of `take`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from threading import Lock
from typing import Generic, Protocol, TypeVar


class News(Protocol):
    """News that a subscriber had not taken yet.

    Attributes:
        is_empty: nothing was published since.
        is_last: none will follow.
        has_more: another call of `take` returns more at once.
    """

    @property
    def is_empty(self) -> bool: ...

    @property
    def is_last(self) -> bool: ...

    @property
    def has_more(self) -> bool: ...


NewsT = TypeVar("NewsT", bound=News)


class Subscriber(Generic[NewsT]):
    """A reader. `wake` is called once, from any thread, when there is something to take.

    Attributes:
        reads_details: whether it receives the details among the news, where there are any.
    """

    def __init__(self, publisher: Publisher[NewsT], wake: Callable[[], None], *, reads_details: bool = False) -> None:
        self._publisher = publisher
        self.reads_details = reads_details
        self.taken = 0
        self.wake = wake
        self.is_awake = True

    def take(self, most: int | None = None) -> NewsT:
        """Return the news since the last call, at most the first `most` of them where the publisher counts them.

        The next news wakes the subscriber again; news that is left needs another call.
        """
        self.is_awake = False  # first: news that is published during the call must wake it
        return self._publisher.news_for(self, most)


class Publisher(ABC, Generic[NewsT]):
    """Wakes its subscribers. A subclass keeps the news.

    Attributes:
        lock: guards the subscribers and the news.
        is_over: nothing more will be published.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.is_over = False
        self._subscribers: list[Subscriber[NewsT]] = []
        self._had_subscribers = False

    @property
    def is_left(self) -> bool:
        """Whether there were subscribers, and none is left."""
        with self.lock:
            return self._had_subscribers and not self._subscribers

    def subscribe(self, wake: Callable[[], None], *, reads_details: bool = False) -> Subscriber[NewsT]:
        """Return a reader that begins with the first news. Call its take() at once: only then `wake` is called."""
        subscriber = Subscriber(self, wake, reads_details=reads_details)
        with self.lock:
            self._subscribers.append(subscriber)
            self._had_subscribers = True
        return subscriber

    def unsubscribe(self, subscriber: Subscriber[NewsT]) -> None:
        """Stop waking the subscriber. Does nothing for one that has left before."""
        with self.lock:
            if subscriber in self._subscribers:
                self._subscribers.remove(subscriber)

    @abstractmethod
    def news_for(self, subscriber: Subscriber[NewsT], most: int | None) -> NewsT:
        """Return the news that the subscriber has not taken yet; for `most` see `Subscriber.take`."""

    def _marked_awake(self, *, only_details: bool = False) -> list[Subscriber[NewsT]]:
        """Return the subscribers to wake, for details only those that read them.

        The caller holds the lock, and wakes them without it.
        """
        asleep = []
        for subscriber in self._subscribers:
            if not subscriber.is_awake and (subscriber.reads_details or not only_details):
                subscriber.is_awake = True
                asleep.append(subscriber)
        return asleep
