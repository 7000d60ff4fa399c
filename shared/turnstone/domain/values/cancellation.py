"""Cancellation of work that waits."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock


class StopSignal:
    """A one-time signal, set from any thread; observed by every wait of the cancelled work."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._acts: list[Callable[[], None]] = []
        self.is_set = False

    def set(self) -> None:
        """Set the signal, and run its callbacks in this thread."""
        with self._lock:
            self.is_set = True
            for act in self._acts:
                act()

    @contextmanager
    def heeded_by(self, act: Callable[[], None]) -> Iterator[None]:
        """Within the block, register a callback for the signal; it runs at once if that is set. It must not block."""
        with self._lock:
            self._acts.append(act)
            if self.is_set:
                act()
        try:
            yield
        finally:
            with self._lock:
                self._acts.remove(act)
