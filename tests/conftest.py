"""No test reaches beyond this machine, except those for which somebody named a table elsewhere."""

import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

LOOPBACK = ("127.", "::1", "localhost")
CONNECT = socket.socket.connect


class ReachedOut(AssertionError):
    """A test tried to talk to another machine."""


@pytest.fixture(autouse=True, scope="session")
def only_loopback() -> Iterator[None]:
    """Fail a test that connects to anything but this machine."""

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not str(address[0]).startswith(LOOPBACK):
            raise ReachedOut(f"a test connects to {address}")
        CONNECT(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded)
        yield


@pytest.fixture(scope="module")
def beyond_loopback(only_loopback: None) -> Iterator[None]:
    """Let the tests of one module talk to the cloud, because TURNSTONE_TEST_TABLE says that there is a table there."""
    assert os.environ.get("TURNSTONE_TEST_TABLE"), "nobody allowed this module to reach beyond this machine"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", CONNECT)
        yield
