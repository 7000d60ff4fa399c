"""A writer that hangs with the lock of the data folder: others answer, and stop, within their limits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import httpx

from tests.attack.finding import Attack, Finding
from tests.support.clients.plain_client import PlainClient, turn_body
from tests.support.server.servers import ROOT, ServerProcess, server_environment, wait_until

WAIT_S = 0.5
ANSWERED_S = 5.0
COMMAND_S = 10.0
DRAIN_S = 0.5
MARGIN_S = 5.0  # the last resort's three seconds, and two for a busy machine
Part = Callable[[Path], Iterator[Finding]]
SETTINGS: dict[str, object] = {"store_wait_seconds": WAIT_S, "drain_seconds": DRAIN_S}
LOCK = """
import fcntl, os, sys
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


def run(folder: Path, full: bool) -> Iterator[Finding]:
    """Attack servers whose neighbour is stopped in a write, servers whose disk hangs, and one whose processes stop."""
    parts: list[Part] = [
        partial(behind_a_stopped_writer, 6 if full else 2),
        partial(on_a_hanging_disk, 1),
        with_stopped_children,
    ]
    if full:
        parts.append(partial(on_a_hanging_disk, 2))
    with ThreadPoolExecutor(len(parts)) as pool:
        ends: list[Future[list[Finding]]] = []
        for number, part in enumerate(parts):
            own = folder / f"{number}"
            own.mkdir()
            ends.append(pool.submit(list_of, part, own))
        for end in ends:
            yield from end.result()


def list_of(part: Part, folder: Path) -> list[Finding]:
    return list(part(folder))


def behind_a_stopped_writer(writes: int, folder: Path) -> Iterator[Finding]:
    with ServerProcess(folder, **SETTINGS) as server, PlainClient(server.url, ANSWERED_S) as client:
        session = client.open_session("offline")
        with stopped_writer(server.data_dir):
            for number in range(writes):
                yield answered_in_time(f"write {number + 1} behind a stopped process", client, session)
            yield command_ended(server)
            yield stopped(server, "SIGTERM behind a stopped process")


def on_a_hanging_disk(processes: int, folder: Path) -> Iterator[Finding]:
    with ServerProcess(folder, processes=processes, **SETTINGS) as server:
        with PlainClient(server.url) as client:
            hang(server, client)
        yield stopped(server, f"SIGTERM while the disk hangs, {processes} processes")


def with_stopped_children(folder: Path) -> Iterator[Finding]:
    with ServerProcess(folder, processes=2, **SETTINGS) as server:
        yield stopped(server, "SIGTERM while the 2 processes are stopped", children_of(server))


def answered_in_time(what: str, client: PlainClient, session: str) -> Finding:
    began = time.monotonic()
    try:
        outcome = str(client.post(f"{session}/turn", turn_body("hello")).status_code)
    except httpx.TimeoutException:
        outcome = "no answer"
    took_s = time.monotonic() - began
    is_met = outcome == "503" and took_s < ANSWERED_S
    return Finding(what, f"{outcome} after {took_s:.1f} s", f"503 within {ANSWERED_S:g} s", is_met)


def command_ended(server: ServerProcess) -> Finding:
    began = time.monotonic()
    environment = server_environment({"data_dir": server.data_dir, "store_wait_seconds": WAIT_S})
    command = [sys.executable, "-m", "turnstone", "keys", "create", "ann"]
    what, bar = "a key is made behind a stopped process", f"1 line within {COMMAND_S:g} s"
    try:
        ended = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
    except subprocess.TimeoutExpired:
        return Finding(what, "does not end", bar, False)
    lines = ended.stderr.splitlines()
    is_met = ended.returncode == 1 and len(lines) == 1 and "another process" in lines[0]
    return Finding(what, f"{len(lines)} line after {time.monotonic() - began:.1f} s", bar, is_met)


def stopped(server: ServerProcess, what: str, children: tuple[int, ...] = ()) -> Finding:
    """Send SIGTERM to the server, and SIGSTOP to its children until it has ended; measure how long it lives."""
    began = time.monotonic()
    server.terminate()

    def has_ended() -> bool:
        for pid in children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        return server.has_ended() and not any(map(is_alive, children))

    bar_s = DRAIN_S + MARGIN_S
    bar = f"{bar_s:g} s at most"
    try:
        wait_until(has_ended, bar_s, "the server did not end")
    except AssertionError:
        for pid in filter(is_alive, children):
            os.kill(pid, signal.SIGKILL)
        return Finding(what, f"lives after {bar_s:g} s", bar, False)
    return Finding(what, f"ended after {time.monotonic() - began:.1f} s", bar, True)


def hang(server: ServerProcess, client: PlainClient) -> None:
    """Block a read of an agent on the disk forever, in the thread that answers every request."""
    text = os.urandom(600_000).hex()
    agent = client.post("/v1/agents", {"agent_config": {"model": "offline", "instructions": text}}).json()
    (payload,) = (server.data_dir / "blobs").rglob("*.blob")
    payload.unlink()
    os.mkfifo(payload)
    with PlainClient(server.url, timeout_s=0.3) as hung, suppress(httpx.TimeoutException):
        hung.get(f"/v1/agents/{agent['agent_id']}")
        raise AssertionError("the disk does not hang")


def children_of(server: ServerProcess) -> tuple[int, ...]:
    pid = server.process_id
    return tuple(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


@contextmanager
def stopped_writer(data_dir: Path) -> Iterator[None]:
    """Have another process take the lock that writers queue on, and stop it there."""
    with subprocess.Popen(
        [sys.executable, "-c", LOCK, str(data_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "locked\n"
        writer.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            writer.kill()


ATTACK = Attack("stopped writer", run)
