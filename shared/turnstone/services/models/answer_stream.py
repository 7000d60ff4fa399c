"""A model's answer while it streams: one thread draws it from the model, another sends it to the client.

The pending part is limited: the drawing thread waits, and keeps its slot, until the part is taken or cancelled. So a
client that reads nothing holds little of an answer, and the number of waiting threads is that of slots.
"""

import sys
from collections import deque
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from threading import Condition

from turnstone.domain.errors import TurnstoneError
from turnstone.domain.models.inference import Continuations, Continued
from turnstone.domain.models.requests import Inferred, TextChunk, TokenLikelihood
from turnstone.domain.values.cancellation import StopSignal
from turnstone.domain.values.content import TextItem, items_of
from turnstone.services.threads.publisher import Publisher, Subscriber

WholeAnswer = Inferred | Continuations
Part = str | TextChunk | Continued | WholeAnswer
MOST_WAITING_BYTES = 256 * 1024
SUBSCRIBED_WITHIN_S = 10.0
LIKELIHOOD_BYTES = 250  # of one token, about


@dataclass(frozen=True, slots=True)
class NewParts:
    """The parts since the last call: some text, and in the end the whole answer or the error.

    The sender removes each part before it sends the next, so that no part is held for longer than needed.
    """

    parts: deque[Part]
    error: BaseException | None
    is_last: bool
    has_more: bool

    @property
    def is_empty(self) -> bool:
        return not self.parts and self.error is None


class AnswerStream(Publisher[NewParts]):
    """One answer for one subscriber; it is cancelled when that leaves."""

    def __init__(
        self, answer_id: str, requested_at: datetime, parts: Generator[Part, None, None], stop: StopSignal
    ) -> None:
        """Prepare a stream of the parts, which `run` draws. The signal makes the model's adapter fail at once."""
        super().__init__()
        self.answer_id = answer_id
        self.requested_at = requested_at
        self._drawn = parts
        self._stop = stop
        self._changed = Condition(self.lock)
        self._pending: deque[tuple[Part, int]] = deque()
        self._pending_bytes = 0
        self._error: BaseException | None = None

    def run(self) -> None:
        """Draw the answer to its end. Blocks its thread."""
        with self._stop.heeded_by(self._wake_drawing):
            try:
                with closing(self._drawn) as parts:
                    for part in parts:
                        self._emit(part)
                        self._wait_for_room()
                        if self._stop.is_set:
                            break
            except TurnstoneError as error:
                self.fail(error)
            else:
                self._end()

    def fail(self, error: BaseException) -> None:
        """End the answer with an error."""
        self._end(error)

    def subscribe(self, wake: Callable[[], None], *, reads_details: bool = False) -> Subscriber[NewParts]:
        """Return the only reader; to be called once. For `wake` see `Publisher`."""
        subscriber = super().subscribe(wake, reads_details=reads_details)
        self._wake_drawing()
        return subscriber

    def unsubscribe(self, subscriber: Subscriber[NewParts]) -> None:
        """Cancel the answer, if it is not over."""
        super().unsubscribe(subscriber)
        self.stop()

    def news_for(self, subscriber: Subscriber[NewParts], most: int | None) -> NewParts:  # noqa: ARG002 - bytes count
        """Return the parts since the last call; a long one alone."""
        parts: deque[Part] = deque()
        with self._changed:
            while self._pending and not (parts and self._pending[0][1] > MOST_WAITING_BYTES):
                part, size_bytes = self._pending.popleft()
                self._pending_bytes -= size_bytes
                parts.append(part)
            has_more = bool(self._pending)
            self._changed.notify_all()
            return NewParts(parts, None if has_more else self._error, self.is_over and not has_more, has_more)

    def stop(self) -> None:
        """Cancel the answer, if it is not over."""
        if not self.is_over:
            self._stop.set()

    def _emit(self, part: Part) -> None:
        size_bytes = _size_of(part)
        with self._changed:
            self._pending.append((part, size_bytes))
            self._pending_bytes += size_bytes
            woken = self._marked_awake()
        for subscriber in woken:
            subscriber.wake()

    def _end(self, error: BaseException | None = None) -> None:
        with self._changed:
            self._error = error
            self.is_over = True
            woken = self._marked_awake()
        for subscriber in woken:
            subscriber.wake()

    def _wait_for_room(self) -> None:
        """Wait while too many bytes are pending. Cancel an answer that gets no subscriber in time."""
        if self._has_room:
            return  # the usual case, without the lock: only this thread adds to the pending bytes
        with self._changed:
            is_subscribed = self._changed.wait_for(lambda: self._has_room or self._had_subscribers, SUBSCRIBED_WITHIN_S)
            if is_subscribed:
                self._changed.wait_for(lambda: self._has_room)
        if not is_subscribed:
            self._stop.set()

    @property
    def _has_room(self) -> bool:
        return self._pending_bytes <= MOST_WAITING_BYTES or self._stop.is_set

    def _wake_drawing(self) -> None:
        with self._changed:
            self._changed.notify_all()


def _size_of(part: Part) -> int:
    """Return about how much memory the part holds."""
    match part:
        case str():
            return sys.getsizeof(part)
        case TextChunk(text, logprobs):
            return sys.getsizeof(text) + _size_of_rated(logprobs)
        case Continued(answer):
            return _size_of(answer)
        case Continuations(answers):
            return sum(map(_size_of, answers))
        case Inferred(message=message, logprobs=logprobs):
            texts = sum(sys.getsizeof(item.text) for item in items_of(message.content) if isinstance(item, TextItem))
            calls = sum(sys.getsizeof(call.arguments_json or "") for call in message.tool_calls)
            return texts + calls + _size_of_rated(logprobs)


def _size_of_rated(logprobs: tuple[TokenLikelihood, ...]) -> int:
    return sum(LIKELIHOOD_BYTES * (1 + len(token.top_logprobs)) for token in logprobs)
