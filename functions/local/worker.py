"""Worker process of a server of several: `functions/local/processes.py` starts it and passes connections to it."""

import errno
import os
import socket
import sys
from contextlib import suppress

from turnstone.bootstrap.places.local import LocalServer
from turnstone.domain.errors import StoreUnavailable
from turnstone.settings.config import InvalidFile, InvalidSettings, load_settings
from turnstone.settings.local_settings import LocalSettings

from .processes import SERVES
from .server import DrainingServer, begin_local_logging, spare_the_collector


class WorkerServer(DrainingServer):
    """A uvicorn server for the connections from a channel, until a signal to stop or the end of the channel."""

    def _open(self) -> None:
        self._source.setblocking(False)
        self._source.send(SERVES)

    def _close(self) -> None:
        with suppress(OSError):
            self._source.shutdown(socket.SHUT_RD)  # so that connections go to another worker

    def _accept(self) -> None:
        try:
            word, descriptors, _, _ = socket.recv_fds(self._source, 1, 1)
        except (BlockingIOError, InterruptedError):
            return
        if not word:  # the parent process is gone, and would not stop this one
            self._pause()
            self.should_exit = True
        elif not descriptors:  # the kernel has closed it
            self._wait_for_room(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
        for descriptor in descriptors:
            self._begin(socket.socket(fileno=descriptor))


def main(channel: socket.socket) -> None:
    """Serve the connections from the channel; send the reason through it if that is not possible."""
    try:
        settings = load_settings(LocalSettings)
        begin_local_logging(settings)
        server = LocalServer(settings)
    except InvalidFile as problem:
        channel.sendall(problem.of(settings.models_file).encode())
        os._exit(1)
    except (InvalidSettings, StoreUnavailable) as problem:
        channel.sendall(str(problem).encode())
        os._exit(1)
    spare_the_collector()
    WorkerServer(settings, server, channel).run(sockets=[])
    os._exit(0)  # as in `serve`


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
