"""Direct calls of tools whose clients disconnect: a running call is ended, a waiting one leaves its queue.

Covers: services/tools/tool_running, adapters/tools/code/call_limit
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clients.plain_client import PlainClient
from tests.support.server.servers import HOST, ServerProcess

INVOKE = "/v1/tool-runtime/invoke"
CONFIG = """
[tools.code_interpreter]
runs = "here"
timeout_seconds = 50
calls_at_a_time = 1
"""
SLEEPS = "import time; time.sleep(40)"
STARTED_S = 1.5  # until a call that was sent runs, or waits
SOON_S = 8.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    (config := tmp_path / "turnstone.toml").write_text(CONFIG)
    with ServerProcess(tmp_path, config=config, max_running_turns=3, place_wait_seconds=1) as server:
        yield server


def calling(server: ServerProcess, code: str) -> socket.socket:
    """Return a connection whose call of the code interpreter runs or waits."""
    body = json.dumps({"tool_name": "code_interpreter", "kwargs": {"code": code}}).encode()
    line = socket.create_connection((HOST, server.port), SOON_S)
    line.sendall(f"POST {INVOKE} HTTP/1.1\r\nhost: {HOST}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    time.sleep(STARTED_S)
    return line


def answered_after(client: PlainClient) -> float:
    """Return how many seconds a short call took to return its output."""
    began = time.monotonic()
    answer = client.post(INVOKE, {"tool_name": "code_interpreter", "kwargs": {"code": "print('here')"}})
    assert "here" in answer.json()["content"], answer.text
    return time.monotonic() - began


def test_code_whose_client_disconnects_is_ended_and_the_next_call_runs(server: ServerProcess) -> None:
    with PlainClient(server.url) as client:
        calling(server, SLEEPS).close()
        assert answered_after(client) < SOON_S


def test_a_waiting_call_whose_client_disconnects_never_runs(server: ServerProcess) -> None:
    with PlainClient(server.url) as client:
        running = calling(server, SLEEPS)
        calling(server, SLEEPS).close()
        calling(server, SLEEPS).close()  # these two would hold two of the three slots if they were not released
        waits = [calling(server, SLEEPS), calling(server, SLEEPS)]
        for line in (running, *waits):
            line.close()
        assert answered_after(client) < SOON_S
