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
ACCEPTED_PER_TURN = 16  # before other callbacks run: they close connections before descriptors run out
log = logging.getLogger(__name__)


class AcceptingServer(uvicorn.Server):
    """A uvicorn server that accepts the connections of a socket itself.

    uvloop would accept all pending connections before it serves one, and reset those without a descriptor.
    """

    def __init__(self, config: uvicorn.Config, connections: Connections, source: socket.socket) -> None:
        """Prepare the server.

        Args:
            config: settings of uvicorn.
            connections: the supervised connections; an idle one is closed when descriptors run out.
            source: a bound socket; the server begins to listen at its start.
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
        """Start to listen."""
        self._source.setblocking(False)
        self._source.listen(BACKLOG)

    def _close(self) -> None:
        """Stop listening."""
        self._source.close()

    def _resume(self) -> None:
        asyncio.get_running_loop().add_reader(self._source, self._accept)

    def _pause(self) -> None:
        asyncio.get_running_loop().remove_reader(self._source)
        if self._again is not None:
            self._again.cancel()

    def _accept(self) -> None:
        for _ in range(ACCEPTED_PER_TURN):
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
        """Close an idle connection, and leave new ones in the backlog for a moment."""
        self._warning.count(problem.strerror)
        self._connections.make_room()
        self._pause()
        self._again = asyncio.get_running_loop().call_later(TRY_AGAIN_S, self._resume)

    def _begin(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        if sys.platform == "linux":
            # covers the system's send buffer, which may hold megabytes after the connection was closed here
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
