"""HTTP without upgrades: a request that offers one is answered as if it did not, and never taken for two."""

import sys

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class HttpOnly(HttpToolsProtocol):
    """uvicorn's quick protocol, which leaves what offers an upgrade to the one that reads it whole.

    The quick one's parser ends such a request with its head, so that the body would be read as the next request.
    Some clients offer HTTP/2 with every first request, by `Upgrade: h2c`.
    """

    def data_received(self, data: bytes) -> None:
        self._received = data
        super().data_received(data)
        self._received = b""  # which an idle connection would keep

    def _should_upgrade(self) -> bool:
        return True

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over, with the request's head and what came after it."""
        self.ws_protocol_class = H11Protocol
        super().handle_websocket_upgrade()
        upgrade = sys.exc_info()[1]  # raised where the head ends
        rest = self._received[upgrade.args[0] :] if upgrade is not None else b""
        reader = self.transport.get_protocol()
        if rest and isinstance(reader, H11Protocol):
            reader.data_received(rest)
