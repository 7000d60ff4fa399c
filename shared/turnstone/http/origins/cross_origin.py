"""Cross-origin requests (CORS): pages of the operator's listed origins may call the API and read its answers.

Origins match exactly. Requests of other origins are served as without this module, and their browser keeps the answers
from the page. Callers authenticate by bearers, which a page adds itself, so no answer allows
credentials (cookies, or certificates of the browser).

Source: the Fetch standard, https://fetch.spec.whatwg.org/#http-cors-protocol.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnstone.http.server.request_lines import RequestLine

# readable beside the headers of the Fetch standard's safelist; the template's gateway responses have the same list
EXPOSED = (
    "allow, content-disposition, location, preference-applied, retry-after, www-authenticate, x-request-id, "
    "x-should-retry, x-turn-status, x-turn-tokens"
)
METHODS = "GET, POST, PUT, PATCH, DELETE, HEAD"
MAX_AGE_S = 7_200  # the longest that Chromium keeps the answer to a preflight
NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # the characters of a header's name
NAMES = rf"{NAME}(?:[ \t]*,[ \t]*{NAME})*"
MOST_NAMES_BYTES = 4_096
Headers = list[tuple[bytes, bytes]]


class CrossOrigin:
    """An ASGI app that answers preflights of listed origins, and marks its app's answers as readable for them."""

    def __init__(self, app: ASGIApp, origins: Iterable[str]) -> None:
        """Take the app, and the origins as browsers send them."""
        self._app = app
        self._origins = frozenset(origin.encode() for origin in origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        origin = self._listed_origin(scope)
        if origin is not None and scope["method"] == "OPTIONS":
            sent = dict(scope["headers"])
            if b"access-control-request-method" in sent:
                await _answer_preflight(origin, sent.get(b"access-control-request-headers"), scope, send)
                return
        await self._app(scope, receive, _marking(send, origin))

    def _listed_origin(self, scope: Scope) -> bytes | None:
        sent = [value for name, value in scope["headers"] if name == b"origin"]
        return sent[0] if len(sent) == 1 and sent[0] in self._origins else None


async def _answer_preflight(origin: bytes, requested: bytes | None, scope: Scope, send: Send) -> None:
    """Allow the request on any path: its own answer states its problems."""
    headers: Headers = [
        (b"access-control-allow-origin", origin),
        (b"access-control-allow-methods", METHODS.encode()),
        (b"access-control-max-age", str(MAX_AGE_S).encode()),
        (b"vary", b"Origin, Access-Control-Request-Headers"),
    ]
    if requested is not None and _are_names(requested):
        headers.append((b"access-control-allow-headers", requested))
    with RequestLine("OPTIONS", None, None, {"path": scope["path"]}) as line:
        line.status = 204
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def _are_names(requested: bytes) -> bool:
    return len(requested) <= MOST_NAMES_BYTES and re.fullmatch(NAMES.encode(), requested) is not None


def _marking(send: Send, origin: bytes | None) -> Send:
    """Return `send` for an answer to the listed origin, None for a request of another one or of no page."""

    def send_marked(message: Message) -> Awaitable[None]:  # no coroutine of its own: a stream has many messages
        if message["type"] == "http.response.start":
            message = {**message, "headers": _marked(message.get("headers", ()), origin)}
        return send(message)

    return send_marked


def _marked(headers: Iterable[tuple[bytes, bytes]], origin: bytes | None) -> Headers:
    """Return the answer's headers with those of its origin; a cache learns that answers differ by origin."""
    marked = [(name, value) for name, value in headers if name != b"vary"]
    varied = [value for name, value in headers if name == b"vary"]
    marked.append((b"vary", b", ".join([*varied, b"Origin"])))
    if origin is not None:
        marked += [(b"access-control-allow-origin", origin), (b"access-control-expose-headers", EXPOSED.encode())]
    return marked
