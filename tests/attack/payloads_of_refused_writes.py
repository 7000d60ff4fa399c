"""Payload files of writes that a full disk refuses, that are replaced, or whose process died before the record."""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import uuid4

from tests.attack.finding import Attack, Finding
from tests.support.clients.plain_client import PlainClient, answering, turn_body
from tests.support.server.servers import ServerProcess, wait_until

GRACE_S, GRACE_IN_FULL_S = 1, 3  # longer while clients store payloads, and the machine may stand still
PATIENCE_S = 30.0
REFUSED, REFUSED_IN_FULL = 3, 20
LEFT, LEFT_IN_FULL = 200, 5_000
WRITERS = 6
ROOM_BYTES = 1_200_000  # for a payload of `noise`, which the log of the database has outgrown by then
CITY = {"name": "city", "parameter_type": "string", "description": "The city"}
WEATHER = {"name": "get_weather", "description": "Weather of a city", "parameters": [CITY]}
PAUSES = "please get_weather(city=Oslo)"


def run(folder: Path, full: bool) -> Iterator[Finding]:
    """Refuse writes on a full disk, replace payloads, and leave some as a killed process does."""
    grace_s = GRACE_IN_FULL_S if full else GRACE_S
    with ServerProcess(folder, payload_grace_seconds=grace_s) as server, PlainClient(server.url) as client:
        yield refused_writes(server, client, REFUSED_IN_FULL if full else REFUSED)
        yield swept(server, client, LEFT_IN_FULL if full else LEFT, WRITERS if full else 0)
        tracebacks = server.log.count("Traceback")
        yield Finding("what the server logs meanwhile", f"{tracebacks} tracebacks", "none", tracebacks == 0)


def refused_writes(server: ServerProcess, client: PlainClient, times: int) -> Finding:
    """Stop the growth of the database's log, while there is room for payloads."""
    session = client.open_session("offline", enable_session_persistence=True)
    while log_of(server).stat().st_size < ROOM_BYTES:
        client.post(f"{session}/turn", turn_body(os.urandom(150_000).hex()))
    before = files_of(server)
    with at_most(server, log_of(server).stat().st_size):
        agents = [{"agent_config": {"model": "offline", "instructions": noise()}} for _ in range(times)]
        answers = [client.post("/v1/agents", agent).status_code for agent in agents]
    left = files_of(server) - before
    return Finding(
        f"{times} agents with large instructions, while the database's log can't grow",
        f"{answers.count(503)} times 503, {len(left)} files left",
        f"{times} times 503, no file left",
        (answers.count(503), len(left)) == (times, 0),
    )


def swept(server: ServerProcess, client: PlainClient, left: int, writers: int) -> Finding:
    """Leave payloads that no record names, next to turns under way, and check the files that the sweep deletes."""
    folder = server.data_dir / "blobs" / ("0" * 32)
    folder.mkdir(parents=True)
    for number in range(left):
        suffix = ".part" if number % 10 == 0 else ".blob"
        (folder / f"{'1' * 32}-{uuid4().hex}{suffix}").write_bytes(b"what a killed process left")
    is_over, at_once = threading.Event(), threading.Event()
    at_once.set()
    sessions = [paused_and_resumed(server.url, at_once)]
    with ThreadPoolExecutor(writers + 1) as pool:
        working = [pool.submit(paused_and_resumed, server.url, is_over) for _ in range(writers)]
        try:
            wait_until(lambda: not any(folder.iterdir()), PATIENCE_S, "not all that was left is removed")
        finally:
            is_over.set()
        sessions += [turns.result() for turns in working]
    wait_until(lambda: len(files_of(server)) == len(named(server)), PATIENCE_S, "replaced payloads are not removed")
    read = [client.get(path) for path in sessions]
    lost = [turn_id for session in read for turn_id in session.get("lost_turns", [])]
    turns = sum(len(session["turns"]) for session in read)
    return Finding(
        f"{left} files that no record names, beside {writers} clients that store payloads",
        f"all removed; of {turns} turns {len(lost)} lost",
        "all removed, no turn lost",
        not lost and turns > 0 and files_of(server) == named(server),
    )


def paused_and_resumed(url: str, is_over: threading.Event) -> str:
    """Store turns whose payloads are replaced twice, one at least, until it is over; return their session."""
    with PlainClient(url) as client:
        path = client.open_session("offline", client_tools=[WEATHER], enable_session_persistence=True)
        while True:
            paused = client.post(f"{path}/turn", turn_body(PAUSES + noise())).json()
            client.post(f"{path}/turn/{paused['turn_id']}/resume", answering(paused, "4 degrees"))
            if is_over.is_set():
                return path


def files_of(server: ServerProcess) -> set[str]:
    """Return every file of payloads, by its name within their folder."""
    blobs = server.data_dir / "blobs"
    return {path.relative_to(blobs).as_posix() for path in blobs.rglob("*") if path.is_file()}


def named(server: ServerProcess) -> set[str]:
    """Return the files that records name."""
    with closing(sqlite3.connect(server.data_dir / "turnstone.db")) as database:
        query = "SELECT body FROM items WHERE json_extract(attributes, '$.codec') IN ('blob', 'zlib+blob')"
        return {f"{json.loads(body)['name']}.blob" for (body,) in database.execute(query)}


def log_of(server: ServerProcess) -> Path:
    return server.data_dir / "turnstone.db-wal"


@contextmanager
def at_most(server: ServerProcess, size_bytes: int) -> Iterator[None]:
    """Let no file of the server's grow beyond this."""
    _, hard = resource.prlimit(server.process_id, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process_id, resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.prlimit(server.process_id, resource.RLIMIT_FSIZE, (hard, hard))


def noise() -> str:
    """Return text that no record has room for, even compressed."""
    return os.urandom(400_000).hex()


ATTACK = Attack("payloads of refused writes", run)
