"""One of several processes that serve at one address: `functions/processes.py` starts it and hands it connections."""

import asyncio
import logging
import os
import socket
import sys
from contextlib import suppress

from functions.local import DrainingServer, note_only_what_is_told, spare_the_collector
from functions.processes import SERVES
from turnstone.bootstrap.local import LocalServer
from turnstone.config import InvalidSettings, load_settings
from turnstone.domain.errors import StoreUnavailable
from turnstone.local_settings import LocalSettings


class HandedServer(DrainingServer):
    """A uvicorn that serves the connections that come over a channel, until told to end or the channel's other end."""

    def __init__(self, settings: LocalSettings, server: LocalServer, channel: socket.socket) -> None:
        super().__init__(settings, server)
        self._channel = channel
        self._beginning = set[asyncio.Task[object]]()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._channel.setblocking(False)
            asyncio.get_running_loop().add_reader(self._channel, self._take)
            self._channel.send(SERVES)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().remove_reader(self._channel)
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_RD)  # whoever hands connections out has to look for another process
        await super().shutdown(sockets)

    def _take(self) -> None:
        word, descriptors, _, _ = socket.recv_fds(self._channel, 1, 1)
        loop = asyncio.get_running_loop()
        if not word:  # nobody is there any more to tell this process when to end
            loop.remove_reader(self._channel)
            self.should_exit = True
        for descriptor in descriptors:
            connection = socket.socket(fileno=descriptor)
            connection.setblocking(False)
            beginning = loop.create_task(loop.connect_accepted_socket(self._protocol, connection))
            self._beginning.add(beginning)
            beginning.add_done_callback(self._beginning.discard)

    def _protocol(self) -> asyncio.Protocol:
        protocol = self.config.http_protocol_class
        loop = asyncio.get_running_loop()
        return protocol(self.config, self.server_state, self.lifespan.state, loop)  # type: ignore[call-arg]


def main(channel: socket.socket) -> None:
    """Serve what comes over the channel; tell over it why that can't be done."""
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s %(levelname)s [{os.getpid()}] %(message)s")
    note_only_what_is_told()
    try:
        settings = load_settings(LocalSettings)
        server = LocalServer(settings)
    except (InvalidSettings, StoreUnavailable) as problem:
        channel.sendall(str(problem).encode())
        os._exit(1)
    spare_the_collector()
    HandedServer(settings, server, channel).run(sockets=[])
    os._exit(0)  # as the server of one process does


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
