"""Readers that read nothing: of long sessions, turns, steps, events and files, and of the stream of a running turn."""

from __future__ import annotations

import base64
import http.client
import json
import random
import re
import select
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from tests.attack.finding import Attack, Finding
from tests.fakes.models.openai_answers import Pause, text_chunk
from tests.fakes.models.openai_server import ModelServer
from tests.support.server.servers import HOST, ServerProcess, wait_until
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.adapters.sqlite.sqlite_failures import PAYLOADS
from turnstone.bootstrap.places.operator import DATABASE
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.refs import SessionRef
from turnstone.ports.records import Put
from turnstone.store.layout.frames import frame
from turnstone.store.layout.keys import attachment_key
from turnstone.store.layout.oversize import OversizeStore

MB = 1_000_000
MOST_EACH_MB = 1.0
MOST_LEFT_MB = 50.0
GONE_FOR_S = 10.0
TURN_BYTES = 5 * MB
READER_BUFFER_BYTES = 4_096  # so that the kernel buffers few unread bytes
PATIENCE_S = 60.0


def run(folder: Path, full: bool) -> Iterator[Finding]:
    readers = 100 if full else 24
    deltas = [text_chunk(f"{number:07} delta ") for number in range(20_000 if full else 8_000)]
    with ServerProcess(folder) as server:
        session = Session(server)
        turn_ids = [session.turn(noise(TURN_BYTES, number)) for number in range(4 if full else 1)]
        size = f"{len(session.read()) / MB:.0f} MB"
        large = {f"a session of {size}": session.path, **session.large_answers(turn_ids[0])}
        for of, path in large.items():
            server.restart()  # no figure includes the memory of the write or of earlier readers
            session.read_small()
            yield from _held(server, f"{readers} readers of {of}", get_request(path), readers)
    with (
        ModelServer(lambda _: [*deltas, Pause(PATIENCE_S)]) as model,
        ServerProcess(folder, model_url=model.url) as server,
    ):
        session = Session(server)
        what = f"{readers} readers of a running turn of {len(deltas)} deltas"
        with session.live_turn(len(deltas)) as turn_id:
            yield from _held(server, what, get_request(f"{session.path}/turn/{turn_id}/events"), readers)


def _held(server: ServerProcess, what: str, request: bytes, readers: int) -> Iterator[Finding]:
    idle_mb = settled_mb(server)
    sockets = [unread(server, request) for _ in range(readers)]
    wait_until(lambda: has_begun(sockets), PATIENCE_S, "not every reader is answered")
    held_mb = settled_mb(server) - idle_mb
    each_mb = held_mb / readers
    yield Finding(what, f"{each_mb:.2f} MB each", f"{MOST_EACH_MB:g} MB each at most", each_mb <= MOST_EACH_MB)
    for reader in sockets:
        reader.close()
    deadline = time.monotonic() + GONE_FOR_S
    while (left_mb := memory_mb(server) - idle_mb) > MOST_LEFT_MB and time.monotonic() < deadline:
        time.sleep(0.2)
    bar = f"{MOST_LEFT_MB:g} MB at most {GONE_FOR_S:g} s later"
    yield Finding(f"{what}, gone", f"{left_mb:.0f} MB above idle", bar, left_mb <= MOST_LEFT_MB)


class Session:
    """A session of an agent of its own.

    Attributes:
        path: of the session's route.
    """

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._small_id = ""
        agent = self._body_of("POST", "/v1/agents", {"agent_config": {"model": "m", "instructions": "Be brief."}})
        agent_path = f"/v1/agents/{json.loads(agent)['agent_id']}"
        opened = self._body_of("POST", f"{agent_path}/session", {"session_name": "long"})
        self.path = f"{agent_path}/session/{json.loads(opened)['session_id']}"

    def turn(self, text: str) -> str:
        """Return the id of an ended turn."""
        received = self._body_of("POST", f"{self.path}/turn", _turn_body(text, stream=False))
        turn_id: str = json.loads(received)["turn_id"]
        return turn_id

    def large_answers(self, turn_id: str) -> dict[str, str]:
        """Return the paths of answers that show a large turn, or a large file that is stored with it now."""
        self._small_id = self.turn("hello")
        turn = f"{self.path}/turn/{turn_id}"
        (step,) = json.loads(self._body_of("GET", turn))["steps"]
        *_, agent_id, _, session_id = self.path.split("/")
        ref = SessionRef(tenant=LOCAL_CALLER.tenant, agent_id=agent_id, session_id=session_id)
        body = frame({"name": "large.txt", "mime_type": "text/plain"}, noise(TURN_BYTES, 9).encode())
        with closing(SqliteRangeStore(self._server.data_dir / DATABASE)) as sqlite:
            store = OversizeStore(sqlite, FileBlobStore(self._server.data_dir / PAYLOADS))
            store.write([Put(attachment_key(ref, "large"), body, is_apart=True)])
        return {
            "a turn": turn,
            "a step": f"{turn}/step/{step['step_id']}",
            "an ended turn's events": f"{turn}/events",
            "an attachment": f"{self.path}/attachments/large",
        }

    def read_small(self) -> None:
        """Read a small turn as the large one is read, so that all modules are loaded."""
        turn = f"{self.path}/turn/{self._small_id}"
        (step,) = json.loads(self._body_of("GET", turn))["steps"]
        for path in (f"{self.path}?turn_ids={self._small_id}", f"{turn}/step/{step['step_id']}", f"{turn}/events"):
            self._body_of("GET", path)

    def read(self) -> bytes:
        return self._body_of("GET", self.path)

    @contextmanager
    def live_turn(self, deltas: int) -> Iterator[str]:
        """Return the id of a running turn, whose model has sent so many deltas and is silent now."""
        body = json.dumps(_turn_body("go on", stream=True)).encode()
        head = f"POST {self.path}/turn HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {len(body)}\r\n\r\n"
        with socket.create_connection((HOST, self._server.port), PATIENCE_S) as client:
            client.sendall(head.encode() + body)
            received, end, turn_id = b"", f"{deltas - 1:07} delta".encode(), None
            while end not in received:
                received = received[-200:] + client.recv(MB)
                turn_id = turn_id or re.search(rb'"turn_id":"([^"]+)"', received)
            assert turn_id is not None
            yield turn_id[1].decode()

    def _body_of(self, method: str, path: str, body: object = None) -> bytes:
        connection = http.client.HTTPConnection(HOST, self._server.port, timeout=PATIENCE_S)
        with closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body))
            response = connection.getresponse()
            answer = response.read()
        assert response.status == 200, (response.status, answer[:500])
        return answer


def noise(size: int, seed: int) -> str:
    """Return a text that hardly shrinks when it is compressed."""
    return base64.b64encode(random.Random(seed).randbytes(size * 3 // 4)).decode()


def get_request(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()


def unread(server: ServerProcess, request: bytes) -> socket.socket:
    """Return a connection that has sent the request, and of whose answer nothing was read."""
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, READER_BUFFER_BYTES)
    reader.settimeout(PATIENCE_S)
    reader.connect((HOST, server.port))
    reader.sendall(request)
    return reader


def has_begun(readers: Sequence[socket.socket]) -> bool:
    """Return whether something has come for each of them."""
    poller = select.poll()
    for reader in readers:
        poller.register(reader, select.POLLIN)
    return len(poller.poll(0)) == len(readers)


def memory_mb(server: ServerProcess) -> float:
    """Return how much memory the server's process has now."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1_024 / MB


def settled_mb(server: ServerProcess) -> float:
    """Return the most memory the server has had once it takes no more for a second."""
    most_mb, since = memory_mb(server), time.monotonic()
    while time.monotonic() - since < 1.0:
        time.sleep(0.1)
        if (now_mb := memory_mb(server)) > most_mb + 1.0:
            most_mb, since = now_mb, time.monotonic()
    return max(most_mb, now_mb)


def _turn_body(text: str, *, stream: bool) -> dict[str, object]:
    return {"stream": stream, "messages": [{"role": "user", "content": text}]}


ATTACK = Attack("readers that don't read", run)
