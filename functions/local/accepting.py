"""Accepting connections, also when descriptors are scarce."""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import sys

import uvicorn

from .connections import Connections
from .descriptors import TRY_AGAIN_S, RareWarning

BACKLOG = 2_048
AT_ONCE = 16  # accepted before others have their turn, so that there is room to be made before descriptors run out
log = logging.getLogger(__name__)


class AcceptingServer(uvicorn.Server):
    """A uvicorn that accepts the connections of a socket itself.

    uvloop would accept all that wait before it serves one of them, and reset those that it has no descriptor for.
    """

    def __init__(self, config: uvicorn.Config, connections: Connections, source: socket.socket) -> None:
        """Prepare it.

        Args:
            config: how uvicorn serves.
            connections: the supervised connections, among which there may be one to close for another.
            source: bound, and not listened on before the server can serve.
        """
        super().__init__(config)
        self._connections = connections
        self._source = source
        self._beginning = set[asyncio.Task[object]]()
        self._again: asyncio.TimerHandle | None = None
        self._warning = RareWarning(log, "%d times a connection could not be accepted: %s")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets or [])
        if self.started:
            self._open()
            self._resume()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._pause()
        self._close()
        await super().shutdown(sockets or [])

    def _open(self) -> None:
        """Begin to listen."""
        self._source.setblocking(False)
        self._source.listen(BACKLOG)

    def _close(self) -> None:
        """Listen no more."""
        self._source.close()

    def _resume(self) -> None:
        asyncio.get_running_loop().add_reader(self._source, self._accept)

    def _pause(self) -> None:
        asyncio.get_running_loop().remove_reader(self._source)
        if self._again is not None:
            self._again.cancel()

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                connection, _ = self._source.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as problem:
                self._wait_for_room(problem)
                return
            self._begin(connection)

    def _wait_for_room(self, problem: OSError) -> None:
        """Leave new connections where the system keeps them, for a moment, and close an idle one."""
        self._warning.count(problem.strerror)
        self._connections.make_room()
        self._pause()
        self._again = asyncio.get_running_loop().call_later(TRY_AGAIN_S, self._resume)

    def _begin(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        if sys.platform == "linux":
            # for what the system has taken, which may be megabytes, also after the connection was closed here
            unread_ms = math.ceil(self._connections.limits.unread_s * 1_000)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, unread_ms)
        loop = asyncio.get_running_loop()
        beginning = loop.create_task(loop.connect_accepted_socket(self._protocol, connection))
        self._beginning.add(beginning)
        beginning.add_done_callback(self._begun)

    def _begun(self, beginning: asyncio.Task[object]) -> None:
        self._beginning.discard(beginning)
        if not beginning.cancelled() and (problem := beginning.exception()) is not None:
            self._warning.count(problem)

    def _protocol(self) -> asyncio.Protocol:
        protocol = self.config.http_protocol_class
        loop = asyncio.get_running_loop()
        return protocol(self.config, self.server_state, self.lifespan.state, loop)  # type: ignore[call-arg]
