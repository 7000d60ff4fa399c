"""Breaking off what nobody wants any more, wherever it waits."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock


class StopSignal:
    """Given once, from any thread; heeded by all who wait for an answer meanwhile."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._acts: list[Callable[[], None]] = []
        self.is_given = False

    def give(self) -> None:
        """Have what heeds the signal act now, in this thread."""
        with self._lock:
            self.is_given = True
            for act in self._acts:
                act()

    @contextmanager
    def heeded_by(self, act: Callable[[], None]) -> Iterator[None]:
        """Within the block, have this act when the signal is given, at once if it has been. It must not wait."""
        with self._lock:
            self._acts.append(act)
            if self.is_given:
                act()
        try:
            yield
        finally:
            with self._lock:
                self._acts.remove(act)
