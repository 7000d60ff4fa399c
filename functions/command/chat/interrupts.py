"""Ctrl-C, also where Python loses it: an interrupt that is raised within a finalizer or a callback is dropped there."""

import signal


class Interrupts:
    """Counts how often Ctrl-C was pressed, so that whoever works on notices one that was dropped."""

    def __init__(self) -> None:
        self.count = 0

    def listen(self) -> None:
        """Have each press counted, and raised as ever, from now on. For the main thread."""
        signal.signal(signal.SIGINT, self._note)

    def raise_since(self, count: int) -> None:
        """Raise KeyboardInterrupt if it was pressed since there were so many presses."""
        if self.count > count:
            raise KeyboardInterrupt

    def _note(self, *_: object) -> None:
        self.count += 1
        raise KeyboardInterrupt


INTERRUPTS = Interrupts()
