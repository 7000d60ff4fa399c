"""Breaking off what nobody wants any more, wherever it waits."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock


class StopSignal:
    """Given once, from any thread; heeded by whoever waits for an answer meanwhile."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._act: Callable[[], None] | None = None
        self.is_given = False

    def give(self) -> None:
        """Have what heeds the signal act now, in this thread."""
        with self._lock:
            self.is_given = True
            if self._act is not None:
                self._act()

    @contextmanager
    def heeded_by(self, act: Callable[[], None]) -> Iterator[None]:
        """Within the block, have this act when the signal is given, at once if it has been. It must not wait."""
        with self._lock:
            self._act = act
            if self.is_given:
                act()
        try:
            yield
        finally:
            with self._lock:
                self._act = None
