"""Guard of a server without authentication: programs of this machine may use it, pages in a browser may not.

A page of another site can send requests to 127.0.0.1, and can read the answers if its own name resolves to 127.0.0.1
(DNS rebinding). Both are recognised: by the page's `Origin`, or by its name as `Host`. The operator may list origins
whose pages may use the server, by a local name like everyone.
"""

from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.types import Receive, Scope, Send

from turnstone.domain.errors.codes import ErrorCode
from turnstone.http.errors import refusal_reply
from turnstone.http.server.app import RoutedApp
from turnstone.http.server.request_lines import RequestLine

LOCAL_NAMES = {"127.0.0.1", "localhost", "::1"}
REFUSAL = (
    "this server has no authentication and answers programs of its own machine only, by the name localhost; for other "
    "names its operator sets TURNSTONE_AUTH, or TURNSTONE_ALLOW_OPEN=true to serve everyone who can reach it"
)


class RebindingGuard:
    """Refuse requests from pages of other sites, before their bodies are read."""

    def __init__(self, app: RoutedApp, origins: Iterable[str] = ()) -> None:
        self._app = app
        self._origins = frozenset(origin.encode() for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _is_local(dict(scope["headers"]), self._origins):
            await self._app(scope, receive, send)
            return
        reply = refusal_reply(ErrorCode.NOT_LOCAL, REFUSAL, None, self._app.dialect_of(scope))
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        with RequestLine(scope["method"], None, None, {"path": scope["path"], "error": "NotLocal"}) as line:
            line.status = reply.status
            await send({"type": "http.response.start", "status": reply.status, "headers": headers})
            await send({"type": "http.response.body", "body": reply.body})


def _is_local(headers: dict[bytes, bytes], origins: frozenset[bytes]) -> bool:
    origin = headers.get(b"origin")
    host = headers.get(b"host")
    is_page_allowed = origin is None or origin in origins or _name(origin.decode("latin-1")) in LOCAL_NAMES
    return is_page_allowed and (host is None or _name("//" + host.decode("latin-1")) in LOCAL_NAMES)


@lru_cache(maxsize=64)
def _name(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
