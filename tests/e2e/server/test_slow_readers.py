"""Connections whose clients read nothing of their answers, or little at a time.

Covers: functions/local
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.attack.slow_readers import HOST, TURN_BYTES, Session, get_request, has_begun, noise, unread
from tests.fakes.models.openai_answers import Item, encoded, text_answer, text_chunk
from tests.fakes.models.openai_answers import ending as ended
from tests.fakes.models.openai_server import ModelServer
from tests.support.server.servers import ServerProcess, wait_until

LIMIT_S = 1.0
PATIENCE_S = 20.0
LINE = "its client read none of"
TURN_LINE = "turn/{turn_id} 200"


class Served:
    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.session = Session(server)
        self.turn_path = f"{self.session.path}/turn/{self.session.turn(noise(TURN_BYTES, 0))}"

    def ended(self) -> int:
        """Return how many connections were ended because nothing was read."""
        return self.server.log.count(LINE)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with ServerProcess(tmp_path_factory.mktemp("server"), unread_seconds=LIMIT_S) as server:
        yield Served(server)


@pytest.mark.parametrize("of", ["session", "turn", "events"])
def test_an_unread_connection_is_ended_and_logged_once(served: Served, of: str) -> None:
    path = {"session": served.session.path, "turn": served.turn_path, "events": f"{served.turn_path}/events"}[of]
    before = served.ended()
    with unread(served.server, get_request(path)) as reader:
        wait_until(lambda: served.ended() > before, PATIENCE_S, "the connection was not ended")
        assert received(reader) < TURN_BYTES
    assert served.ended() == before + 1


def test_a_connection_that_the_system_ends_first_is_logged_too(served: Served) -> None:
    before, answered = served.ended(), served.server.log.count(TURN_LINE)
    with unread(served.server, get_request(served.turn_path)):
        wait_until(lambda: served.server.log.count(TURN_LINE) > answered, PATIENCE_S, "the turn was not answered")
        os.kill(served.server.pid, signal.SIGSTOP)
        time.sleep(3 * LIMIT_S)
        os.kill(served.server.pid, signal.SIGCONT)
        wait_until(lambda: served.ended() > before, PATIENCE_S, "the connection was not ended")
    assert served.ended() == before + 1


def test_a_client_that_only_closes_its_own_half_gets_no_extra_time(served: Served) -> None:
    before, answered = served.ended(), served.server.log.count(TURN_LINE)
    with unread(served.server, get_request(served.turn_path)) as reader:
        wait_until(lambda: served.server.log.count(TURN_LINE) > answered, PATIENCE_S, "the turn was not answered")
        reader.shutdown(socket.SHUT_WR)
        wait_until(lambda: served.ended() > before, PATIENCE_S, "the connection was not ended")
        assert received(reader) < TURN_BYTES


def chat(text: str) -> bytes:
    return json.dumps({"model": "m", "stream": True, "messages": [{"role": "user", "content": text}]}).encode()


def chat_request(text: str) -> bytes:
    body = chat(text)
    return f"POST {CHAT} HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def chat_status(server: ServerProcess, text: str) -> int:
    """Return the status of a chat whose answer is read."""
    with closing(http.client.HTTPConnection(HOST, server.port, timeout=PATIENCE_S)) as connection:
        connection.request("POST", CHAT, chat(text), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        return answer.status


def received(reader: socket.socket) -> int:
    """Return the number of bytes received until the connection's end."""
    size_bytes = 0
    with suppress(ConnectionResetError):
        while part := reader.recv(TURN_BYTES):
            size_bytes += len(part)
    return size_bytes


def test_a_slowly_read_connection_is_kept(served: Served) -> None:
    before = served.ended()
    with unread(served.server, get_request(served.turn_path)) as reader:
        until = time.monotonic() + 3 * LIMIT_S
        while time.monotonic() < until:
            assert reader.recv(64 * 1024)
            time.sleep(LIMIT_S / 20)
        rest = 0
        while rest < TURN_BYTES // 4:
            rest += len(reader.recv(TURN_BYTES))
    assert served.ended() == before


CHAT = "/v1/openai/v1/chat/completions"
ANSWER = [encoded(text_chunk("x" * 60_000))] * 200


@pytest.mark.parametrize("ending", ["leaves", "is cut off", "server ends"])
def test_an_unread_stream_keeps_its_slot_until_it_is_ended(tmp_path: Path, ending: str) -> None:
    limit_s = LIMIT_S if ending == "is cut off" else 10 * PATIENCE_S
    one_slot = {"max_running_turns": 1, "place_wait_seconds": 0}

    def reply(body: Mapping[str, Any]) -> tuple[Item, ...]:
        is_long = body["messages"][0]["content"] == "long"
        return (*ANSWER, *ended("stop")) if is_long else text_answer("ok")

    with (
        ModelServer(reply) as model,
        ServerProcess(tmp_path, model_url=model.url, unread_seconds=limit_s, drain_seconds=1, **one_slot) as server,
        unread(server, chat_request("long")) as reader,
    ):
        wait_until(lambda: has_begun([reader]), PATIENCE_S, "the stream does not begin")
        time.sleep(LIMIT_S / 2)
        assert chat_status(server, "short") == 503
        if ending == "server ends":
            server.terminate()
            assert server.wait(PATIENCE_S) in (0, -signal.SIGTERM)
            return
        if ending == "leaves":
            reader.close()
        wait_until(lambda: chat_status(server, "short") == 200, PATIENCE_S, "the slot is not released")


def test_an_idle_connection_is_kept(served: Served) -> None:
    with socket.create_connection((HOST, served.server.port), PATIENCE_S) as idle:
        for _ in range(2):
            idle.sendall(get_request("/v1/health"))
            answer = b""
            while not answer.endswith(b"}"):  # head and body may come one after the other
                answer += idle.recv(4_096)
            assert answer.startswith(b"HTTP/1.1 200")
            time.sleep(1.5 * LIMIT_S)


def test_a_session_is_read_no_further_after_its_reader_disconnects(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        session = Session(server)
        for number in range(4):
            session.turn(noise(TURN_BYTES, number))
        reader = unread(server, get_request(session.path))
        assert reader.recv(1)
        time.sleep(0.5)  # longer than the server's interval between checks for a disconnected client
        before_s = processor_s(server)
        reader.close()
        wait_until(lambda: f"GET {ROUTE}" in server.log, PATIENCE_S, "the answer is not ended")
        assert processor_s(server) - before_s < READ_ON_S


ROUTE = "/v1/agents/{agent_id}/session/{session_id} 200"
READ_ON_S = 0.1


def processor_s(server: ServerProcess) -> float:
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def test_a_reader_of_nothing_holds_up_no_stop(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, unread_seconds=LIMIT_S, drain_seconds=120) as server:
        session = Session(server)
        turn_id = session.turn(noise(TURN_BYTES, 0))
        with unread(server, get_request(f"{session.path}/turn/{turn_id}")):
            wait_until(lambda: TURN_LINE in server.log, PATIENCE_S, "the turn was not answered")
            server.terminate()
            server.wait(PATIENCE_S)
    assert LINE in server.log
