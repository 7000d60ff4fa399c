"""A full disk, a read-only database: refusals that state the cause, and a server that works again afterwards.

Covers: adapters/sqlite/sqlite_failures, adapters/sqlite/reserve
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.clients.plain_client import Json, PlainClient, turn_body
from tests.support.server.served import Served
from tests.support.server.servers import ServerProcess

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform != "linux", reason="limits of another process are set as Linux has it"),
]
ROOM_BYTES = 256 * 1024
LONG_TEXT = os.urandom(30_000).hex()
DROP_CAPABILITY, MAY_WRITE_ANYTHING = 24, 1  # of prctl(2) and capabilities(7)


def test_while_the_disk_is_full_turns_are_refused_and_nothing_stored_is_lost(served: Served) -> None:
    server, client = served(lease_seconds=1)
    session, other = client.open_session(), client.open_session()
    with limited(server):
        answered, refused = until_refused(client, session)
        assert refused.status_code == 503, refused.text
        with full(server):
            for path, body in creations(other):
                expect_store_unavailable(client.post(path, body))
            assert client.get(session)["turns"][: len(answered)] == answered
    last = client.post(f"{other}/turn", turn_body("two")).json()
    assert last["output_message"]["content"] == "ok"
    assert client.get(other)["turns"] == [last]
    assert client.get(session)["turns"][: len(answered)] == answered


def test_a_turn_that_runs_into_a_full_disk_is_finished_when_there_is_room(served: Served) -> None:
    server, client = served(lease_seconds=1)
    session = client.open_session("stream-1")
    with client.streaming(f"{session}/turn", turn_body("a story")) as events:
        turn_id = next(events)["turn_id"]
        with full(server):
            events_left = list(events)
    assert "error" in events_left[-1]
    ended = client.ended_turn(f"{session}/turn/{turn_id}")
    assert ended["output_message"]["content"] == "word0 word1 word2 word3 "
    assert [step["step_type"] for step in ended["steps"]] == ["inference"]
    assert client.get(session)["turns"] == [ended]


def test_a_read_only_database_is_read_and_is_written_once_it_is_writable(served: Served) -> None:
    server, client = served(before_start=drop_write_override)
    session = client.open_session()
    first = client.post(f"{session}/turn", turn_body("one")).json()
    server.kill()
    files = [server.data_dir / "turnstone.db", *server.data_dir.glob("turnstone.db-*")]
    with unwritable(files):
        server.start()
        assert client.get(session)["turns"] == [first]
        for path, body in creations(session):
            expect_store_unavailable(client.post(path, body))
    second = client.post(f"{session}/turn", turn_body("two")).json()
    assert client.get(session)["turns"] == [first, second]


def creations(session: str) -> list[tuple[str, Json]]:
    agents = session.partition("/session/")[0]
    config = {"model": "instant", "instructions": "Be brief."}
    return [
        (f"{session}/turn", turn_body("two")),
        (f"{agents}/session", {"session_name": "second"}),
        ("/v1/agents", {"agent_config": config}),
    ]


def until_refused(client: PlainClient, session: str) -> tuple[list[Json], httpx.Response]:
    """Send long messages until the disk is full; return the answered turns and the first refusal."""
    answered: list[Json] = []
    for _ in range(100):
        answer = client.post(f"{session}/turn", turn_body(LONG_TEXT))
        if answer.status_code != 200:
            return answered, answer
        answered.append(answer.json())
    raise AssertionError("the disk is never full")


def expect_store_unavailable(answer: httpx.Response) -> None:
    assert (answer.status_code, answer.headers.get("retry-after")) == (503, "1"), answer.text
    assert answer.json() == {
        "detail": "the store can't be read or written now; try again shortly",
        "code": "store_unavailable",
    }


@contextmanager
def limited(server: ServerProcess) -> Iterator[None]:
    """Let no file of the server's grow much beyond the largest one: writes fail as they do on a full disk."""
    files = [path for path in server.data_dir.rglob("*") if path.is_file() and path.suffix != ".reserve"]
    largest = max(path.stat().st_size for path in files)
    with at_most(server, largest + ROOM_BYTES):
        yield


@contextmanager
def full(server: ServerProcess) -> Iterator[None]:
    """Let no file of the server's be written behind its first bytes."""
    with at_most(server, 4_096):
        yield


@contextmanager
def at_most(server: ServerProcess, size_bytes: int) -> Iterator[None]:
    _, hard = resource.prlimit(server.process_id, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process_id, resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.prlimit(server.process_id, resource.RLIMIT_FSIZE, (hard, hard))


@contextmanager
def unwritable(files: list[Path]) -> Iterator[None]:
    modes = [path.stat().st_mode for path in files]
    for path in files:
        path.chmod(0o444)
    try:
        yield
    finally:
        for path, mode in zip(files, modes, strict=True):
            path.chmod(mode)


def drop_write_override() -> None:
    """Drop the superuser's capability to write read-only files."""
    if os.geteuid() == 0 and ctypes.CDLL(None).prctl(DROP_CAPABILITY, MAY_WRITE_ANYTHING, 0, 0, 0) != 0:
        raise PermissionError
