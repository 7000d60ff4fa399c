"""No test reaches beyond this machine."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

LOOPBACK = ("127.", "::1", "localhost")


class ReachedOut(AssertionError):
    """A test tried to talk to another machine."""


@pytest.fixture(autouse=True, scope="session")
def only_loopback() -> Iterator[None]:
    """Fail a test that connects to anything but this machine."""
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not str(address[0]).startswith(LOOPBACK):
            raise ReachedOut(f"a test connects to {address}")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        yield
