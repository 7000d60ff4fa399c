"""The time limits for an arriving request, and the connections that are closed for new ones.

Covers: functions/local
"""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.attack.raw_http import HEALTH, STATUS, connected, received, status_of
from tests.support.clients.plain_client import text_in, turn_body
from tests.support.server.served import ONE_SECOND, WORDS, Served
from tests.support.server.servers import ServerProcess, wait_until

pytestmark = pytest.mark.timeout(120)
SHORT_S = 0.5
TRICKLE_S = 0.02
PATIENCE_S = 20.0
POST = b"POST /v1/agents HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path, head_seconds=SHORT_S, body_seconds=SHORT_S) as server:
        yield server


def statuses_in(answer: bytes) -> list[int]:
    return [int(status) for status in STATUS.findall(answer)]


def one_answer(connection: socket.socket) -> list[int]:
    """Return the status of the next answer, once its JSON is complete."""
    answer = b""
    while not answer.endswith(b"}"):
        part = connection.recv(65_536)
        assert part, f"the connection ended after {answer!r}"
        answer += part
    return statuses_in(answer)


def has_ended(connection: socket.socket) -> bool:
    """Return whether the server has closed the connection, without consuming received bytes."""
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    finally:
        connection.settimeout(PATIENCE_S)


def trickled(connection: socket.socket, byte: bytes) -> list[int]:
    """Send a byte now and then until there is an answer; return the statuses of all answers."""
    deadline = time.monotonic() + PATIENCE_S
    connection.settimeout(TRICKLE_S)
    while time.monotonic() < deadline:
        connection.sendall(byte)
        try:
            answer = connection.recv(65_536)
        except TimeoutError:
            continue
        connection.settimeout(PATIENCE_S)
        return statuses_in(answer + received(connection))
    raise AssertionError("no answer")


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_silent_connections_are_closed_and_kept_ones_are_not(server: ServerProcess) -> None:
    with connected(server.port) as kept, connected(server.port) as silent:
        kept.sendall(HEALTH)
        assert one_answer(kept) == [200]
        wait_until(lambda: has_ended(silent), PATIENCE_S, "the silent connection is open")
        assert received(silent) == b""
        kept.sendall(HEALTH)
        assert one_answer(kept) == [200]


@pytest.mark.parametrize("before", [b"", HEALTH])
def test_a_head_that_takes_too_long_is_refused_although_bytes_come(before: bytes, server: ServerProcess) -> None:
    with connected(server.port) as connection:
        connection.sendall(before)
        if before:
            assert one_answer(connection) == [200]
        connection.sendall(b"GET /v1/health HTTP/1.1\r\nname: ")
        assert trickled(connection, b"v") == [408]


def test_a_body_that_is_too_slow_is_refused_and_another_is_not(server: ServerProcess) -> None:
    with connected(server.port) as slow, connected(server.port) as steady:
        slow.sendall(POST)
        steady.sendall(POST)
        sent = 0
        deadline = time.monotonic() + PATIENCE_S
        slow.setblocking(False)
        answer = b""
        while not answer and time.monotonic() < deadline:
            steady.sendall(b"x" * 100)
            sent += 100
            slow.send(b"x")
            time.sleep(TRICKLE_S)
            try:
                answer = slow.recv(65_536)
            except BlockingIOError:
                continue
        steady.sendall(b"x" * (100_000 - sent))
        assert statuses_in(answer) == [408]
        assert one_answer(steady) == [400]


# ── number ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_connection_with_a_running_answer_is_not_closed_for_others(served: Served) -> None:
    server, client = served(max_connections=6)
    session = client.open_session(ONE_SECOND)
    with ExitStack() as stack, client.streaming(f"{session}/turn", turn_body("a story")) as events:
        next(events)
        crowd = [stack.enter_context(connected(server.port)) for _ in range(40)]
        assert status_of(server.port) == 200
        assert sum(not has_ended(connection) for connection in crowd) <= 6
        assert text_in(list(events)) == WORDS


def test_when_all_connections_are_answered_a_new_one_gets_503(served: Served) -> None:
    server, client = served(max_connections=4)
    sessions = [client.open_session(ONE_SECOND) for _ in range(4)]
    with ExitStack() as stack:
        streams = [stack.enter_context(client.streaming(f"{path}/turn", turn_body("a story"))) for path in sessions]
        for events in streams:
            next(events)
        assert status_of(server.port, b"") == 503
        assert [text_in(list(events)) for events in streams] == [WORDS] * 4
    assert status_of(server.port) == 200
    assert server.log.count("were refused") == 1


# ── descriptors ──────────────────────────────────────────────────────────────────────────────────────────────────


def next_descriptor_of(pid: int) -> int:
    """Return the number that the process would get for the next file it opens."""
    taken = set(map(int, os.listdir(f"/proc/{pid}/fd")))
    return min(set(range(len(taken) + 1)) - taken)


def processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("processes", [1, 2])
def test_without_a_descriptor_connections_wait_and_the_server_neither_spins_nor_ends(
    processes: int, tmp_path: Path
) -> None:
    with ServerProcess(tmp_path, processes=processes) as server, ExitStack() as stack:
        pid = server.process_id
        before = resource.prlimit(pid, resource.RLIMIT_NOFILE)

        def descriptors_are_settled() -> bool:
            """Open one more idle connection, for which only a server of one process keeps a descriptor."""
            expected = next_descriptor_of(pid)
            idle = stack.enter_context(connected(server.port))
            idle.sendall(HEALTH)
            assert one_answer(idle) == [200]
            return (next_descriptor_of(pid) > expected) == (processes == 1)

        wait_until(descriptors_are_settled, PATIENCE_S, "descriptors come and go")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (next_descriptor_of(pid), before[1]))
        waiting = stack.enter_context(connected(server.port))
        waiting.sendall(HEALTH)
        wait_until(lambda: "could not be accepted" in server.log, PATIENCE_S, "no warning")
        if processes == 1:  # idle connections are closed for the one that waits
            assert one_answer(waiting) == [200]
        began_s = processor_s(pid)
        time.sleep(SHORT_S)
        assert processor_s(pid) - began_s < SHORT_S / 2
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
        if processes > 1:
            assert one_answer(waiting) == [200]
        assert status_of(server.port) == 200
        assert server.log.count("could not be accepted") == 1
