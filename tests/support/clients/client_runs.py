"""Runs a column of the table of clients once, against a server of its own, for all tests that check it."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.openai_server import ModelServer
from tests.fakes.tools.mcp_server import McpServers
from tests.support.clients.client_columns import Column, outcomes
from tests.support.models.worded_model import LISTED, answer_by_words
from tests.support.needs import need_clients, need_programs
from tests.support.server.servers import ROOT, ServerProcess
from tests.support.server.stores import server_over

SHOWN_LOG_CHARACTERS = 4_000
KEY_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class ColumnRun:
    """The results of a column.

    Attributes:
        outcomes: the outcome of each row, by its name.
        log: the end of the server's log.
    """

    outcomes: dict[str, dict[str, Any]]
    log: str


def run_of(column: Column, folders: pytest.TempPathFactory, request: pytest.FixtureRequest) -> ColumnRun:
    """Return the results of a column; the first test of any worker that needs them runs it."""
    if column.is_javascript:
        need_programs("node")
    need_clients(column.folder)
    shared = folders.getbasetemp().parent if "PYTEST_XDIST_WORKER" in os.environ else folders.getbasetemp()
    kept = shared / f"clients-{column.name}.json"
    with locked(kept.with_suffix(".lock")):
        if not kept.exists():
            folder = folders.mktemp(column.name)
            try:
                stored = asdict(run_column(column, folder, request))
            except Exception as error:  # noqa: BLE001 - fails every test of the column, not the first alone
                stored = {"broken": f"{type(error).__name__}: {error}"}
            kept.write_text(json.dumps(stored))
    stored = json.loads(kept.read_text())
    assert "broken" not in stored, stored["broken"]
    return ColumnRun(**stored)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run_column(column: Column, folder: Path, request: pytest.FixtureRequest) -> ColumnRun:
    with ModelServer(answer_by_words, listed=LISTED) as model, McpServers() as servers:
        mcp = servers.start()
        settings: dict[str, Any] = {
            "model_url": model.url,
            "auth": "api_keys",
            "fetch_allow": f"127.0.0.1:{mcp.port}",
        }
        server = server_over(column.store, folder, request, **settings)
        key = new_key(server)
        server.authorization = f"Bearer {key}"
        with server:
            found = {outcome.pop("row"): outcome for outcome in outcomes(column, server.url, key, mcp.url())}
            return ColumnRun(found, server.log[-SHOWN_LOG_CHARACTERS:])


def new_key(server: ServerProcess) -> str:
    """Return a key that the server accepts."""
    command = [sys.executable, "-m", "turnstone", "keys", "create", "ann", "--role", "admin"]
    made = subprocess.run(
        command,
        cwd=ROOT,
        env=server.key_environment(),
        capture_output=True,
        text=True,
        timeout=KEY_TIMEOUT_S,
        check=True,
    )
    return made.stdout.strip()
