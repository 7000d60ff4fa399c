"""A model's answer while it is given: one thread draws it from the model, another passes it on."""

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from threading import Lock

from turnstone.domain.errors import TurnstoneError
from turnstone.domain.inference import Continuations, Continued, ModelAnswer, RatedText
from turnstone.domain.stopping import StopSignal

Whole = ModelAnswer | Continuations
Part = str | RatedText | Continued | Whole


@dataclass(frozen=True, slots=True)
class Told:
    """What was said since the last look: some text, and in the end the whole answer or why there is none."""

    parts: tuple[Part, ...]
    error: BaseException | None
    is_over: bool


class Answering:
    """One answer, for one listener, which it is broken off for when that leaves."""

    def __init__(
        self, answer_id: str, asked_at: datetime, parts: Generator[Part, None, None], stop: StopSignal
    ) -> None:
        """Take the parts of the answer, which `run` draws; the signal has the model's adapter fail at once."""
        self.answer_id = answer_id
        self.asked_at = asked_at
        self._drawn = parts
        self._stop = stop
        self._lock = Lock()
        self._untold: list[Part] = []
        self._error: BaseException | None = None
        self._is_over = False
        self._wake: Callable[[], None] | None = None

    def run(self) -> None:
        """Draw the answer to its end; for a thread that has nothing else to do."""
        try:
            with closing(self._drawn) as parts:
                for part in parts:
                    self._tell((part,))
                    if self._stop.is_given:
                        break
        except TurnstoneError as error:
            self.fail(error)
        else:
            self._tell((), is_over=True)

    def fail(self, error: BaseException) -> None:
        """Say that no more of the answer will come."""
        self._tell((), error, is_over=True)

    def listen(self, wake: Callable[[], None]) -> None:
        """Have this called, from any thread, when there is something to take again. To be called once, first."""
        self._wake = wake

    def take(self) -> Told:
        """Return what has been said since the last call."""
        with self._lock:
            told = Told(tuple(self._untold), self._error, self._is_over)
            self._untold.clear()
            return told

    def stop(self) -> None:
        """Break the answer off, if it is not over."""
        if not self._is_over:
            self._stop.give()

    def _tell(self, parts: tuple[Part, ...], error: BaseException | None = None, *, is_over: bool = False) -> None:
        with self._lock:
            is_news = not self._untold
            self._untold += parts
            self._error = error
            self._is_over = is_over
        if self._wake is not None and (is_news or is_over):
            self._wake()
