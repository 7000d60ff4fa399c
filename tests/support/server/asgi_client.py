"""A whole server in this process, called with raw requests as uvicorn would pass them to its app."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from urllib.parse import unquote

from starlette.types import ASGIApp

from functions.local.server import build_local_app
from tests.support.clients.forms import encoded
from turnstone.adapters.machine.system import RandomIds, SystemClock
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.bootstrap.places.local import LocalServer
from turnstone.dialects.openai.errors import openai_codes
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors.codes import ErrorCode
from turnstone.services.access.api_keys import ApiKeys
from turnstone.settings.local_settings import LocalSettings
from turnstone.store.access.api_keys import ApiKeyStore

HOST = (b"host", b"127.0.0.1:8321")
INSIDE = re.compile(rb"Traceback|pydantic|site-packages|sqlite|turnstone[./]|\.py\b|\.db\b")
SETTLED_WITHIN_S = 10.0


@dataclass(frozen=True)
class Raw:
    """A request as it is on the wire.

    Attributes:
        target: path and query in visible ASCII characters, percent-encoded or not.
        body: in the parts in which it arrives.
        hangs_up: the client is gone after the last part, without marking it as the last.
    """

    method: str
    target: bytes
    body: tuple[bytes, ...] = ()
    headers: tuple[tuple[bytes, bytes], ...] = ()
    hangs_up: bool = False


@dataclass(frozen=True)
class Answered:
    """An answer. Header names are in lower case; the one that differs each time, the request's id, is apart."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    request_id: str = field(default="", compare=False)

    def json(self) -> Any:
        """Return the body as JSON in the strict sense, in which NaN and Infinity are none."""
        return strict_json(self.body.decode())

    def refusal(self) -> str:
        """Return the problems in the answer, field by field; it has to be in one of the dialects' envelopes."""
        assert self.headers.get("content-type") == "application/json", self
        assert not INSIDE.search(self.body), self
        match self.json():
            case {"detail": str(detail), "code": code, **others} if detail and not others:
                assert code in list(ErrorCode)
                return detail
            case {"error": {"message": str(message), "type": str(), "param": str() | None, "code": code}, **others}:
                assert message
                assert code in openai_codes()
                assert others == {} or others.pop("code") in list(ErrorCode)
                assert others in ({}, {"detail": message})
                return message
            case {"error": {"detail": {"errors": [_, *_] as problems, "code": code}}} if self.status == 400:
                assert code in list(ErrorCode)
                return "\n".join(map(problem_message, problems))
            case {"detail": [_, *_] as problems, "code": code, **others} if self.status == 422 and not others:
                assert code in list(ErrorCode)
                assert all({"loc", "msg", "type"} == set(problem) for problem in problems), self
                return "\n".join(map(problem_message, problems))
        raise AssertionError(f"{self} is in no envelope")


class Begun(NamedTuple):
    """A request under way; `sent` are the messages of its answer so far."""

    task: asyncio.Task[list[Mapping[str, Any]]]
    sent: list[Mapping[str, Any]]


class AsgiClient:
    """Calls an app, on one event loop that continues from request to request. For one thread at a time."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._loop = asyncio.new_event_loop()

    @contextmanager
    def lifespan(self) -> Iterator[None]:
        """Start the app and stop it afterwards, as a server does."""
        started, over = asyncio.Event(), asyncio.Event()

        async def receive() -> dict[str, Any]:
            if started.is_set():
                await over.wait()
            return {"type": "lifespan.shutdown" if started.is_set() else "lifespan.startup"}

        async def send(_: Mapping[str, Any]) -> None:
            started.set()

        life = self._loop.create_task(self.app({"type": "lifespan", "state": {}}, receive, send))
        self._loop.run_until_complete(started.wait())
        try:
            yield
        finally:
            over.set()
            self._loop.run_until_complete(life)
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    def send(self, request: Raw) -> Answered:
        """Return the answer. An exception the app lets out is raised: a server would have cut the connection."""
        return answer_of(self._loop.run_until_complete(self._exchange(request)))

    def begin(self, request: Raw) -> Begun:
        """Send a request that continues while others are sent; `finish` returns its answer."""
        sent: list[Mapping[str, Any]] = []
        return Begun(self._loop.create_task(self._exchange(request, sent)), sent)

    def finish(self, begun: Begun) -> Answered:
        return answer_of(self._loop.run_until_complete(begun.task))

    def go_on_until(self, is_so: Callable[[], bool]) -> None:
        """Run the app's pending work until the condition holds."""

        async def wait() -> None:
            async with asyncio.timeout(SETTLED_WITHIN_S):
                while not is_so():
                    await asyncio.sleep(0.001)

        self._loop.run_until_complete(wait())

    def is_unanswered(self, request: Raw) -> bool:
        """Return whether the app leaves the request unanswered."""
        return not self._loop.run_until_complete(self._exchange(request))

    def post(self, path: str, body: object) -> Answered:
        sent, headers = encoded(body)
        return self.send(Raw("POST", path.encode(), (sent,), headers))

    def get(self, path: str) -> Answered:
        return self.send(Raw("GET", path.encode()))

    async def _exchange(self, request: Raw, sent: list[Mapping[str, Any]] | None = None) -> list[Mapping[str, Any]]:
        parts = list(request.body) or [b""]
        incoming = [
            {"type": "http.request", "body": part, "more_body": request.hangs_up or index < len(parts) - 1}
            for index, part in enumerate(parts)
        ]
        incoming.reverse()
        sent = [] if sent is None else sent

        async def receive() -> dict[str, Any]:
            if not incoming and not request.hangs_up:
                await asyncio.Event().wait()  # the client stays
            return incoming.pop() if incoming else {"type": "http.disconnect"}

        async def send(message: Mapping[str, Any]) -> None:
            sent.append(message)

        await self.app(scope_of(request), receive, send)
        return sent


@dataclass(frozen=True)
class Served:
    """A server with the offline model and a data directory of its own."""

    client: AsgiClient
    server: LocalServer
    data_dir: Path
    watcher: sqlite3.Connection

    def marks(self) -> tuple[int, int]:
        """Return numbers that differ from those before if anything was written since, once every turn has settled.

        SQLite's `data_version` changes with every commit of another connection.
        """
        self._settle()
        (version,) = self.watcher.execute("PRAGMA data_version").fetchone()
        return version, sum(1 for _ in (self.data_dir / "blobs").glob("*/*"))

    def end_jobs(self) -> None:
        """End the background jobs: from now on, only requests and their turns change the store."""
        self.server._jobs.close()
        self.server._ingest_jobs.close()

    def _settle(self) -> None:
        """Wait until no turn runs: a turn continues, and cleans up, after its answer."""
        deadline = time.monotonic() + SETTLED_WITHIN_S
        while self.server.core.executor._running:
            assert time.monotonic() < deadline, "a turn does not end"
            time.sleep(0.0002)


@contextmanager
def served(data_dir: Path, **settings: Any) -> Iterator[Served]:
    """Serve the app of `make run`, without the socket."""
    chosen = LocalSettings(data_dir=data_dir, drain_seconds=SETTLED_WITHIN_S, **settings)
    server = LocalServer(chosen)
    client = AsgiClient(build_local_app(chosen, server))
    with client.lifespan(), closing(sqlite3.connect(data_dir / "turnstone.db", isolation_level=None)) as watcher:
        server._event_jobs.close()  # deliveries, and their later tries, would change the store between two reads
        yield Served(client, server, data_dir, watcher)


def key_for(serving: Served, caller: Caller) -> str:
    """Return a new API key of the caller, made as an operator makes it, beside the server."""
    with closing(SqliteRangeStore(serving.data_dir / "turnstone.db")) as store:
        return ApiKeys(ApiKeyStore(store), SystemClock(), RandomIds(), os.urandom).create(caller, caller.principal)[1]


def bearer(token: str) -> tuple[bytes, bytes]:
    return b"authorization", f"Bearer {token}".encode()


def scope_of(request: Raw) -> dict[str, Any]:
    """Return the scope uvicorn makes of the request: above all, the path is decoded before it is routed."""
    path, _, query = request.target.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "server": ("127.0.0.1", 8321),
        "client": ("127.0.0.1", 50_000),
        "scheme": "http",
        "method": request.method,
        "root_path": "",
        "path": unquote(path.decode("ascii")),
        "raw_path": path,
        "query_string": query,
        "headers": [HOST, *((name.lower(), value) for name, value in request.headers)],
        "state": {},
    }


def answer_of(sent: list[Mapping[str, Any]]) -> Answered:
    """Return the answer that was sent in these messages, which have to be whole and in order."""
    start, *bodies = sent
    assert start["type"] == "http.response.start"
    assert [message.get("more_body", False) for message in bodies] == [True] * (len(bodies) - 1) + [False]
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in start["headers"]}
    request_id = headers.pop("x-request-id", "")
    return Answered(start["status"], headers, b"".join(message.get("body", b"") for message in bodies), request_id)


def problem_message(problem: Mapping[str, Any]) -> str:
    assert set(problem) == {"loc", "msg", "type"}, problem
    assert problem["msg"], problem
    assert problem["type"], problem
    assert all(isinstance(part, str | int) for part in problem["loc"]), problem
    return f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"


def strict_json(text: str) -> Any:
    return json.loads(text, parse_constant=_refused)


def _refused(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
