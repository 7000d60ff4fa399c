"""Long replies of the edge, and requests that wait when the server stops.

Covers: http/replies, http/request, http/route, http/server/app, http/server/endpoint, http/server/hosting,
  http/streams/pieces, services/use_cases
"""

import asyncio
import re
from collections.abc import MutableMapping
from threading import Event
from typing import Any, cast

from starlette.routing import Match

from functions.local.routes import ROUTES, UNSERVED
from turnstone.http.replies import Reply
from turnstone.http.request import Request
from turnstone.http.route import Route
from turnstone.http.server.app import build_app
from turnstone.http.server.endpoint import BodyLimits
from turnstone.http.server.hosting import OneMachine
from turnstone.http.streams.pieces import PARTS_AT_ONCE, PIECE_BYTES, cut
from turnstone.services.use_cases import UseCases


def test_many_small_parts_go_out_together_and_large_ones_in_pieces() -> None:
    assert [len(piece) for piece in cut([b"x"] * (PARTS_AT_ONCE + 1))] == [PARTS_AT_ONCE, 1]
    parts = [bytes([number]) * (PIECE_BYTES // 2 + 1) for number in range(3)] + [b"y" * 3 * PIECE_BYTES]
    pieces = list(cut(parts))
    assert b"".join(parts) == b"".join(pieces)
    assert {len(piece) for piece in pieces[:-1]} == {PIECE_BYTES}
    drawn = iter(parts)
    next(cut(drawn))
    assert len(list(drawn)) == 2


def test_a_request_that_waits_when_the_server_stops_is_refused_with_a_retry_time() -> None:
    begun, may_end = Event(), Event()

    def slow(_: Request) -> Reply:
        begun.set()
        may_end.wait()
        return Reply(b"")

    app = build_app([Route("GET", "/slow", slow, None)], cast(UseCases, None), BodyLimits(1_000, 1_000), OneMachine())
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def stopped() -> None:
        scope = {"type": "http", "method": "GET", "path": "/slow", "query_string": b"", "headers": []}
        pending = asyncio.create_task(app(scope, receive, send))
        await asyncio.to_thread(begun.wait)
        pending.cancel()
        await pending
        may_end.set()

    asyncio.run(stopped())
    assert (sent[0]["status"], (b"retry-after", b"1") in sent[0]["headers"]) == (503, True)


def test_a_request_is_answered_by_the_first_route_that_matches_it() -> None:
    overlapping = [
        Route("GET", "/x/{name}", lambda _: Reply(b""), None),
        Route("GET", "/x/named", lambda _: Reply(b""), None),
        Route("GET", "/y/{name}", lambda _: Reply(b""), None, takes_slashes=True),
        Route("GET", "/y/{name}/more", lambda _: Reply(b""), None),
    ]
    app = build_app((*ROUTES, *UNSERVED, *overlapping), cast(UseCases, None), BodyLimits(1_000, 1_000), OneMachine())
    patterns = [pattern for route in app.routes if isinstance(pattern := getattr(route, "path", None), str)]
    found_at_once = 0
    for pattern in patterns:
        for value in ("a", "a/b", "a/b/c/d/e/f", "", "session", "a\n"):
            for method in ("GET", "HEAD", "POST", "PUT", "DELETE"):
                path = re.sub(r"\{[^}]*\}", value, pattern)
                scope = {"type": "http", "method": method, "path": path, "root_path": ""}
                candidates = app._by_slashes.get(path.count("/"), [])
                first = next((route for route in app.routes if route.matches(scope)[0] is Match.FULL), None)
                found = next((route for route in candidates if route.matches(scope)[0] is Match.FULL), None)
                assert found in (first, None), (method, path)
                found_at_once += found is not None
    assert found_at_once > len(patterns)
