"""Connections to the checked addresses only: the name is not resolved again."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from http.client import HTTPConnection
from ipaddress import IPv6Address

from turnstone.adapters.fetching.addresses import Address
from turnstone.adapters.fetching.deadline import Deadline
from turnstone.adapters.fetching.targets import FetchTarget

CONNECT_TIMEOUT_S = 5.0  # seconds per address
TRIED_ADDRESSES = 4


class PinnedConnection(HTTPConnection):
    """A connection to one of the target's addresses; the certificate must match the target's name."""

    def __init__(
        self, target: FetchTarget, addresses: Sequence[Address], deadline: Deadline, tls: ssl.SSLContext | None
    ):
        super().__init__(str(target.host), target.port)
        self._target = target
        self._addresses = addresses[:TRIED_ADDRESSES]
        self._deadline = deadline
        self._tls = tls

    def connect(self) -> None:
        """Connect. Raises OSError (no address answers, or TLS fails) and FetchFailed (past the deadline)."""
        self.sock = self._connected()
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is not None:
            self.sock = self._tls.wrap_socket(self.sock, server_hostname=str(self._target.host))

    def _connected(self) -> socket.socket:
        *others, last = self._addresses
        for address in others:
            try:
                return self._connected_to(address)
            except OSError:
                continue
        return self._connected_to(last)

    def _connected_to(self, address: Address) -> socket.socket:
        left_s = self._deadline.left_s(self._target.origin)
        sock = socket.socket(socket.AF_INET6 if isinstance(address, IPv6Address) else socket.AF_INET)
        try:
            sock.settimeout(min(left_s, CONNECT_TIMEOUT_S))
            self._deadline.hold(sock)
            sock.connect((str(address), self._target.port))
            sock.settimeout(self._deadline.left_s(self._target.origin))
        except BaseException:
            sock.close()
            raise
        return sock
