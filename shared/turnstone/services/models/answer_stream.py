"""A model's answer while it is given: one thread draws it from the model, another passes it on.

What the other has not taken is limited: the thread that draws waits, within its place, until it is taken or broken off.
So a client that reads nothing holds little of an answer, and only as many hold more as there are places.
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

Whole = Inferred | Continuations
Part = str | TextChunk | Continued | Whole
MOST_WAITING_BYTES = 256 * 1024
LISTENED_WITHIN_S = 10.0
LIKELIHOOD_BYTES = 250  # of one token, about


@dataclass(frozen=True, slots=True)
class Told:
    """What was said since the last look: some text, and in the end the whole answer or why there is none.

    Whoever passes the parts on removes them, so that none is held while a later one is sent.
    """

    parts: deque[Part]
    error: BaseException | None
    is_over: bool
    has_more: bool


class AnswerStream:
    """One answer, for one listener, which it is broken off for when that leaves."""

    def __init__(
        self, answer_id: str, asked_at: datetime, parts: Generator[Part, None, None], stop: StopSignal
    ) -> None:
        """Take the parts of the answer, which `run` draws; the signal has the model's adapter fail at once."""
        self.answer_id = answer_id
        self.asked_at = asked_at
        self._drawn = parts
        self._stop = stop
        self._changed = Condition()
        self._untold: deque[tuple[Part, int]] = deque()
        self._untold_bytes = 0
        self._error: BaseException | None = None
        self._is_over = False
        self._wake: Callable[[], None] | None = None

    def run(self) -> None:
        """Draw the answer to its end; for a thread that has nothing else to do."""
        with self._stop.heeded_by(self._go_on):
            try:
                with closing(self._drawn) as parts:
                    for part in parts:
                        self._tell(part)
                        self._wait_for_room()
                        if self._stop.is_set:
                            break
            except TurnstoneError as error:
                self.fail(error)
            else:
                self._end()

    def fail(self, error: BaseException) -> None:
        """Say that no more of the answer will come."""
        self._end(error)

    def listen(self, wake: Callable[[], None]) -> None:
        """Have this called, from any thread, when there is something to take again. To be called once, first."""
        with self._changed:
            self._wake = wake
            self._changed.notify_all()

    def take(self) -> Told:
        """Return what has been said since the last call; what is long, alone."""
        parts: deque[Part] = deque()
        with self._changed:
            while self._untold and not (parts and self._untold[0][1] > MOST_WAITING_BYTES):
                part, size_bytes = self._untold.popleft()
                self._untold_bytes -= size_bytes
                parts.append(part)
            has_more = bool(self._untold)
            self._changed.notify_all()
            return Told(parts, None if has_more else self._error, self._is_over and not has_more, has_more)

    def stop(self) -> None:
        """Break the answer off, if it is not over."""
        if not self._is_over:
            self._stop.set()

    def _tell(self, part: Part) -> None:
        size_bytes = _size_of(part)
        with self._changed:
            is_news = not self._untold
            self._untold.append((part, size_bytes))
            self._untold_bytes += size_bytes
        if self._wake is not None and is_news:
            self._wake()

    def _end(self, error: BaseException | None = None) -> None:
        with self._changed:
            self._error = error
            self._is_over = True
        if self._wake is not None:
            self._wake()

    def _wait_for_room(self) -> None:
        """Wait while too much is untold. An answer to which nobody begins to listen is broken off."""
        with self._changed:
            is_listened_to = self._changed.wait_for(lambda: self._has_room or self._wake is not None, LISTENED_WITHIN_S)
            if is_listened_to:
                self._changed.wait_for(lambda: self._has_room)
        if not is_listened_to:
            self._stop.set()

    @property
    def _has_room(self) -> bool:
        return self._untold_bytes <= MOST_WAITING_BYTES or self._stop.is_set

    def _go_on(self) -> None:
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
