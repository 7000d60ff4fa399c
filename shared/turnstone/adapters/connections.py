"""HTTP connections that may take long to send a request.

urllib3 sends a body under the timeout for connecting, which a large prompt over a slow line outlasts.
"""

from __future__ import annotations

from typing import Any

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection

SEND_TIMEOUT_S = 600.0


class Patient:
    """Gives a connection's socket its time again whenever a request begins."""

    sock: Any

    def connect(self) -> None:
        super().connect()  # type: ignore[misc] # mixed into urllib3's connections
        self.sock.settimeout(SEND_TIMEOUT_S)

    def putrequest(self, *args: Any, **more: Any) -> None:
        if self.sock is not None:
            self.sock.settimeout(SEND_TIMEOUT_S)
        super().putrequest(*args, **more)  # type: ignore[misc] # as above


class PatientHTTPConnection(Patient, HTTPConnection):
    pass


class PatientHTTPSConnection(Patient, HTTPSConnection):
    pass


class PatientHTTPPool(HTTPConnectionPool):
    ConnectionCls = PatientHTTPConnection


class PatientHTTPSPool(HTTPSConnectionPool):
    ConnectionCls = PatientHTTPSConnection


def patient_pools(size: int) -> PoolManager:
    """Return pools of kept connections that wait for a slow line while they send."""
    pools = PoolManager(maxsize=size, block=False)
    pools.pool_classes_by_scheme = {"http": PatientHTTPPool, "https": PatientHTTPSPool}
    return pools
