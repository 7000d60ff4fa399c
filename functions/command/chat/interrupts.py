"""Ctrl-C, even if Python drops it: an interrupt raised within a finalizer or a callback is lost there."""

import signal


class Interrupts:
    """Counts presses of Ctrl-C, so that later code can notice one that was dropped."""

    def __init__(self) -> None:
        self.count = 0

    def install(self) -> None:
        """Count each press from now on, and raise KeyboardInterrupt as usual. For the main thread."""
        signal.signal(signal.SIGINT, self._note)

    def raise_since(self, count: int) -> None:
        """Raise KeyboardInterrupt if there were presses since that count."""
        if self.count > count:
            raise KeyboardInterrupt

    def _note(self, *_: object) -> None:
        self.count += 1
        raise KeyboardInterrupt


INTERRUPTS = Interrupts()
