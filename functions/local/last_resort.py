"""The last resort of a stop: a thread that ends the process when nothing else does in time."""

import logging
import os
import signal
import socket
import threading
import time
from contextlib import suppress

MARGIN_S = 2.0  # after the drain, to close what is open
SAYS_SO_S = 0.5
STOPS = (signal.SIGINT, signal.SIGTERM)
log = logging.getLogger(__name__)


class LastResort:
    """Ends the process some time after a stop began, whatever its other threads wait for."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._arming = threading.Lock()
        self._is_armed = False

    def arm(self) -> None:
        """Begin to count the seconds; the first call counts."""
        with self._arming:
            is_first, self._is_armed = not self._is_armed, True
        if is_first:
            threading.Thread(target=self._end, name="last-resort", daemon=True).start()

    def watch_signals(self) -> None:
        """Arm with the first signal to stop, even while the main thread is in a call that no signal ends.

        Is called in the main thread, once what it calls has its own way to learn of signals: a signal is passed on.
        """
        heard, written = socket.socketpair()
        written.setblocking(False)
        passed_to = signal.set_wakeup_fd(written.detach(), warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(heard, passed_to), name="signals", daemon=True).start()

    def _watch(self, heard: socket.socket, passed_to: int) -> None:
        while number := heard.recv(1):
            if number[0] in STOPS:
                self.arm()
            if passed_to != -1:
                with suppress(OSError):
                    os.write(passed_to, number)

    def _end(self) -> None:
        time.sleep(self._after_s)
        # In a thread, because what hangs may be the log.
        saying = threading.Thread(
            target=log.error, args=("ended %g s after the stop began", self._after_s), daemon=True
        )
        saying.start()
        saying.join(SAYS_SO_S)
        os._exit(1)
