"""Hundreds of requests that wait for slots which a hung model holds, while another tenant needs the server."""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.attack.finding import Attack, Finding
from tests.attack.slow_readers import memory_mb
from tests.attack.tenant_share import CHAT, Tenant, chat, hanging_embeddings, hanging_model, made_key, turn_body
from tests.fakes.models.openai_server import ModelServer
from tests.support.server.servers import HOST, ServerProcess, wait_until

SLOTS = 16
GREEDY_SHARE = 12
MOST_S = 3.0
MOST_MB = 100.0
WAIT_S = 30.0  # longer than a check of the waiting requests takes
PATIENCE_S = 20.0
TOOL = {"name": "look", "description": "Look.", "parameters": []}


def run(folder: Path, full: bool) -> Iterator[Finding]:
    waiting = 1_000 if full else 150
    keys = [made_key(folder / "data", tenant) for tenant in ("greedy", "modest")]
    with ExitStack() as stack:
        model = stack.enter_context(ModelServer(hanging_model, embed=hanging_embeddings))
        settings = {
            "model_url": model.url,
            "auth": "api_keys",
            "max_running_turns": SLOTS,
            "max_waiting_requests": 2_000,
            "max_tenant_waiting_requests": waiting,
            "place_wait_seconds": WAIT_S,
            "drain_seconds": 2,
        }
        server = stack.enter_context(ServerProcess(folder, authorization=f"Bearer {keys[0]}", **settings))
        greedy, modest = (stack.enter_context(Tenant(server.port, key)) for key in keys)
        paused, other = modest.session("tool:look", client_tools=[TOOL]), modest.session("instant")
        turn = modest.call("POST", f"{paused}/turn", turn_body("look")).json()
        before_mb = memory_mb(server)
        with greedy.sending("POST", CHAT, chat("hang"), times=GREEDY_SHARE):
            crowd = stack.enter_context(Crowd(server, keys[0], waiting))
            yield crowd.unanswered()
            more_mb = memory_mb(server) - before_mb
            yield Finding(f"{waiting} that wait", f"{more_mb:.0f} MB more", f"{MOST_MB:g} MB", more_mb <= MOST_MB)
            yield _refused(greedy)
            answered = [{"call_id": call["call_id"], "tool_name": "look", "content": "seen"} for call in _calls(turn)]
            resume = f"{paused}/turn/{turn['turn_id']}/resume"
            for what, method, path, body in (
                ("health", "GET", "/v1/health", None),
                ("a read", "GET", other, None),
                ("a resume", "POST", resume, {"tool_responses": answered}),
                ("a turn", "POST", f"{other}/turn", turn_body("hello")),
                ("a question", "POST", CHAT, chat("instant")),
            ):
                yield _quick(f"{what} while {waiting} of another tenant wait", modest, method, path, body)
            yield _cancelled(modest, waiting)
            crowd.close()
            yield _quick(f"health when {waiting} have left at once", modest, "GET", "/v1/health", None)
        yield from _conserved(greedy)
        with greedy.sending("POST", CHAT, chat("hang"), times=GREEDY_SHARE):
            crowd = stack.enter_context(Crowd(server, keys[0], waiting))
            began = time.monotonic()
            server.terminate()
            statuses = crowd.statuses()
            took_s = time.monotonic() - began
            refused = statuses.count(503)
            measured = f"{refused} refused in {took_s:.1f} s"
            is_met = refused == waiting and took_s <= MOST_S
            yield Finding(f"a stop while {waiting} wait", measured, f"all within {MOST_S:g} s", is_met)


class Crowd:
    """Requests of which nothing is read, over a connection each, while the `with` block lasts."""

    def __init__(self, server: ServerProcess, key: str, number: int) -> None:
        self._lines = ExitStack()
        body = json.dumps(chat("instant")).encode()
        head = f"POST {CHAT} HTTP/1.1\r\nhost: {HOST}\r\nauthorization: Bearer {key}\r\ncontent-length: {len(body)}\r\n"
        self._number = number
        self._sockets: list[socket.socket] = []
        for _ in range(number):
            line = self._lines.enter_context(socket.create_connection((HOST, server.port), PATIENCE_S))
            line.sendall(head.encode() + b"\r\n" + body)
            self._sockets.append(line)
        self._cpu = Path(f"/proc/{server.pid}/stat")

    def __enter__(self) -> Crowd:
        wait_until(self._is_server_idle, PATIENCE_S, "the server does not come to rest")
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave, all at once."""
        self._lines.close()

    def unanswered(self) -> Finding:
        """Return the finding that none was refused."""
        poller = select.poll()
        for line in self._sockets:
            poller.register(line, select.POLLIN)
        answered = len(poller.poll(0))
        what = f"{self._number} requests while a hung model holds all places of their tenant"
        return Finding(what, f"{answered} answered", "none: they wait", answered == 0)

    def statuses(self) -> list[int]:
        """Return the status of each answer."""
        return [int(line.recv(65_536).split(b" ", 2)[1]) for line in self._sockets]

    def _is_server_idle(self) -> bool:
        before = self._cpu_ticks()
        time.sleep(0.3)
        return self._cpu_ticks() - before <= 2

    def _cpu_ticks(self) -> int:
        fields = self._cpu.read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])


def _calls(turn: dict[str, Any]) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = turn["output_message"]["tool_calls"]
    return calls


def _refused(greedy: Tenant) -> Finding:
    began = time.monotonic()
    answer = greedy.call("POST", CHAT, chat("instant"))
    took_s = time.monotonic() - began
    is_met = answer.status_code == 503 and answer.headers["retry-after"] == f"{WAIT_S:g}" and took_s <= MOST_S
    return Finding("one more than may wait", f"{answer.status_code} after {took_s:.2f} s", "503 at once", is_met)


def _quick(what: str, tenant: Tenant, method: str, path: str, body: Any) -> Finding:
    began = time.monotonic()
    status = tenant.call(method, path, body).status_code
    took_s = time.monotonic() - began
    return Finding(what, f"{status} after {took_s:.2f} s", f"200, {MOST_S:g} s", status == 200 and took_s <= MOST_S)


def _cancelled(modest: Tenant, waiting: int) -> Finding:
    session = modest.session("hang")
    with modest.sending("POST", f"{session}/turn", turn_body("a story"), times=1):
        turn_id = modest.call("GET", session).json()["turns"][-1]["turn_id"]
        path = f"{session}/turn/{turn_id}/cancel"
        return _quick(f"a cancel while {waiting} of another tenant wait", modest, "POST", path, {})


def _conserved(greedy: Tenant) -> Iterator[Finding]:
    """Yield the findings that all slots of the tenant are free, and none too many."""
    deadline = time.monotonic() + PATIENCE_S
    while (status := greedy.call("POST", CHAT, chat("instant")).status_code) != 200 and time.monotonic() < deadline:
        pass
    yield Finding("a question of the tenant whose crowd has left", str(status), "200", status == 200)


ATTACK = Attack("waiting for places", run)
