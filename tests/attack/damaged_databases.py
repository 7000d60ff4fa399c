"""Databases that are missing, emptied or torn: one line with the remedy, and no silent fresh start."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx

from tests.attack.finding import Attack, Finding
from tests.support.clients.plain_client import PlainClient, turn_body
from tests.support.server.servers import ROOT, ServerProcess, free_port, server_command, server_environment

START_S = 30.0
PAGE_BYTES = 4096
LONG_TEXT = "a long text " * 400


def run(folder: Path, full: bool) -> Iterator[Finding]:
    """Damage copies of a data directory, start a server on each, and tear a page under a server that runs."""
    with ServerProcess(folder) as server:
        with PlainClient(server.url) as client:
            session = client.open_session("offline")
            for number in range(60 if full else 20):
                client.post(f"{session}/turn", turn_body(f"{number} {LONG_TEXT}"))
            client.post("/v1/agents", {"agent_config": {"model": "offline", "instructions": os.urandom(500_000).hex()}})
        server.kill()
        attempts = [(damage, processes) for processes in (1, 3) for damage in DAMAGES] if full else FEW
        with ThreadPoolExecutor(2) as pool:
            ends = []
            for number, (damage, processes) in enumerate(attempts):
                data_dir = shutil.copytree(server.data_dir, folder / f"{number}")
                ends.append(pool.submit(refused, data_dir, damage, processes))
            for end in ends:
                yield end.result()
        tear_leaves(server.data_dir)
        yield from served(server, session, 5 if full else 2)


def lose_database(data: Path) -> None:
    """The database is missing, and its log is left."""
    (data / "turnstone.db").unlink()


def lose_all_but_payloads(data: Path) -> None:
    """Only the payloads are left."""
    for path in data.glob("turnstone.*"):
        path.unlink()


def empty_database(data: Path) -> None:
    """The database has no bytes."""
    os.truncate(data / "turnstone.db", 0)


def write_text(data: Path) -> None:
    """The database is a text."""
    tear(data, 1)
    (data / "turnstone.db").write_text("no database" * 1_000)


def tear_all(data: Path) -> None:
    """All pages but the first are torn."""
    tear(data, 1)


def tear_leaves(data: Path) -> None:
    """The roots of the database are whole, the pages below are torn."""
    tear(data, 12)


DAMAGES: tuple[Callable[[Path], None], ...] = (
    lose_database,
    lose_all_but_payloads,
    empty_database,
    write_text,
    tear_all,
)
FEW = [(lose_database, 1), (empty_database, 3), (tear_all, 1)]


def refused(data_dir: Path, damage: Callable[[Path], None], processes: int) -> Finding:
    """Damage the data directory and start a server on it."""
    what = f"{damage.__doc__} {processes} processes"
    damage(data_dir)
    before = sorted(data_dir.rglob("*"))
    environment = server_environment({"data_dir": data_dir, "port": free_port(), "processes": processes})
    try:
        ended = subprocess.run(
            server_command(), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=START_S, check=False
        )
    except subprocess.TimeoutExpired:
        return Finding(what, "served", "1 line with advice", False)
    lines = ended.stderr.splitlines()
    has_advice = "restore a backup" in ended.stderr and str(data_dir) in ended.stderr
    is_met = len(lines) == 1 and has_advice and ended.returncode == 1 and "Traceback" not in ended.stderr
    is_met = is_met and (data_dir / "turnstone.db" in before or not (data_dir / "turnstone.db").exists())
    return Finding(what, f"{len(lines)} line, exit {ended.returncode}", "1 line with advice", is_met)


def served(server: ServerProcess, session: str, requests: int) -> Iterator[Finding]:
    """Send requests to a server whose database has torn pages."""
    server.start()
    already = len(server.log.splitlines())
    with PlainClient(server.url) as client:
        answers = [client.post(f"{session}/turn", turn_body("hello")).status_code for _ in range(requests)]
        answers.append(httpx.get(f"{server.url}{session}").status_code)
    lines = server.log.splitlines()[already:]
    reported = [line for line in lines if "is damaged" in line and "restore a backup" in line]
    is_met = set(answers) == {503} and len(reported) == len(answers) and "Traceback" not in server.log
    measured = f"{sorted(set(answers))}, {len(reported)} lines for {len(answers)} requests"
    yield Finding("requests on torn pages", measured, "503, a line each", is_met)


def tear(data: Path, first_page: int) -> None:
    """Overwrite pages with zeros, as half-written ones are, and drop the log that would mend them."""
    database = data / "turnstone.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for log in data.glob("turnstone.db-*"):
        log.unlink()
    size = database.stat().st_size
    assert size > first_page * PAGE_BYTES
    with database.open("r+b") as file:
        file.seek(first_page * PAGE_BYTES)
        file.write(bytes(size - first_page * PAGE_BYTES))


ATTACK = Attack("damaged databases", run)
