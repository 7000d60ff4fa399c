"""Backups under load: a backup has every write acknowledged before it, and a restored server continues with it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.attack.finding import Attack, Finding
from tests.support.clients.plain_client import Json, PlainClient, answering, turn_body
from tests.support.server.servers import ROOT, ServerProcess, server_environment

TOOL = {"name": "get_weather", "description": "Tell the weather.", "parameters": []}
COMMAND_S = 60.0
INSTRUCTIONS_BYTES = 400_000  # as hexadecimal digits more than a record holds


def run(folder: Path, full: bool) -> Iterator[Finding]:
    """Back up a server under load, restore the backup elsewhere, and compare; try forbidden targets."""
    backup, restored = folder / "backup", folder / "restored"
    with ServerProcess(folder) as server, PlainClient(server.url) as client:
        with load(server):
            kept = [made(client) for _ in range(12 if full else 3)]
            paused_session = client.open_session("offline", client_tools=[TOOL])
            paused = client.post(f"{paused_session}/turn", turn_body("please get_weather()")).json()
            acknowledged = {path: client.get(path) for path in [*kept, paused_session]}
            yield ended("a backup under load", 0, " MB ", server.data_dir, "backup", backup)
        yield ended("a restore under a server", 1, "stop it", server.data_dir, "restore", backup, "--replace")
        yield private(backup)
    yield ended("a restore over data, put aside", 0, "before-", server.data_dir, "restore", backup, "--replace")
    yield from served(folder, acknowledged, paused_session, paused)
    next((backup / "blobs").rglob("*.blob")).unlink()
    yield ended("a restore without a payload", 1, "not whole", restored, "restore", backup)
    is_untouched = not (restored / "turnstone.db").exists()
    yield Finding("what a refused restore leaves", "nothing" if is_untouched else "a database", "nothing", is_untouched)


def served(folder: Path, acknowledged: dict[str, Json], session: str, paused: Json) -> Iterator[Finding]:
    """Start a server on restored data; check the acknowledged writes, and resume the paused turn."""
    with ServerProcess(folder) as server, PlainClient(server.url) as client:
        lost = [path for path, was in acknowledged.items() if client.get(path) != was]
        yield Finding(
            "acknowledged before, other than that after", f"{len(lost)} of {len(acknowledged)}", "0", not lost
        )
        resumed = client.post(f"{session}/turn/{paused['turn_id']}/resume", answering(paused, "4 degrees")).json()
        is_met = "4 degrees" in resumed["output_message"]["content"]
        yield Finding("the paused turn", "resumed" if is_met else str(resumed)[:60], "resumed", is_met)


def made(client: PlainClient) -> str:
    """Make an agent with a payload, and a session with a turn; return the path of the session."""
    session = client.open_session("offline", instructions=os.urandom(INSTRUCTIONS_BYTES).hex())
    assert client.post(f"{session}/turn", turn_body("hello")).status_code == 200
    return session


@contextmanager
def load(server: ServerProcess) -> Iterator[None]:
    """Have clients make agents with payloads, take turns, and delete the agents, while the block lasts."""
    is_over = threading.Event()

    def work() -> None:
        with PlainClient(server.url) as client:
            while not is_over.is_set():
                session = made(client)
                assert client.delete(session.partition("/session/")[0]).status_code == 204

    with ThreadPoolExecutor(2) as pool:
        workers = [pool.submit(work) for _ in range(2)]
        try:
            yield
        finally:
            is_over.set()
        for worker in workers:
            worker.result()


def ended(what: str, exit_code: int, words: str, data_dir: Path, *command: object) -> Finding:
    """Run a command on the data directory."""
    end = subprocess.run(
        [sys.executable, "-m", "turnstone", *map(str, command)],
        cwd=ROOT,
        env=server_environment({"data_dir": data_dir}),
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    lines = (end.stdout + end.stderr).splitlines()
    is_met = end.returncode == exit_code and words in "".join(lines) and "Traceback" not in end.stderr
    measured = f"exit {end.returncode}" if is_met else f"exit {end.returncode}: {''.join(lines[-1:])[:300]}"
    return Finding(what, measured, f"exit {exit_code}, {words!r}", is_met)


def private(backup: Path) -> Finding:
    """Return whether the backup's owner alone can read it."""
    files = [backup, *backup.rglob("*")]
    open_ones = [path for path in files if stat.S_IMODE(path.stat().st_mode) & 0o077]
    return Finding("files of the backup that others can read", f"{len(open_ones)} of {len(files)}", "0", not open_ones)


ATTACK = Attack("backups under load", run)
