"""A thread that ends the process if a stop takes too long."""

import logging
import os
import signal
import socket
import threading
import time
from contextlib import suppress

MARGIN_S = 2.0  # after the drain, to close files and connections
LOG_S = 0.5
STOPS = (signal.SIGINT, signal.SIGTERM)
log = logging.getLogger(__name__)


class LastResort:
    """Ends the process some time after a stop began, even if its other threads hang."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._arming = threading.Lock()
        self._is_armed = False

    def arm(self) -> None:
        """Start the countdown; further calls have no effect."""
        with self._arming:
            is_first, self._is_armed = not self._is_armed, True
        if is_first:
            threading.Thread(target=self._end, name="last-resort", daemon=True).start()

    def watch_signals(self) -> None:
        """Arm at the first signal to stop, even while the main thread is in a call that no signal ends.

        For the main thread, after the event loop has set its wakeup descriptor: signals are passed on to it.
        """
        received, written = socket.socketpair()
        written.setblocking(False)
        passed_to = signal.set_wakeup_fd(written.detach(), warn_on_full_buffer=False)
        threading.Thread(target=self._watch, args=(received, passed_to), name="signals", daemon=True).start()

    def _watch(self, received: socket.socket, passed_to: int) -> None:
        while number := received.recv(1):
            if number[0] in STOPS:
                self.arm()
            if passed_to != -1:
                with suppress(OSError):
                    os.write(passed_to, number)

    def _end(self) -> None:
        time.sleep(self._after_s)
        # in a thread, because the log may be the part that hangs
        logging_thread = threading.Thread(
            target=log.error, args=("process ended by force, %g s after the stop began", self._after_s), daemon=True
        )
        logging_thread.start()
        logging_thread.join(LOG_S)
        os._exit(1)
