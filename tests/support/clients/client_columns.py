"""The columns of the table of clients: the clients, and how each runs its rows.

A column is one process with one client, unmodified, on its path. It runs all rows one after the other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from threading import Timer
from types import MappingProxyType
from typing import Any

from tests.support.server.servers import ROOT

CLIENTS = ROOT / ".clients"
SCRIPTS = ROOT / "tests" / "support" / "clients" / "scripts"
TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Column:
    """One client.

    Attributes:
        client: how the table calls it.
        script: the program that runs its rows.
        folder: where below `.clients` it is installed.
        store: over which store the server runs.
        is_nightly: whether it is too much for every run.
    """

    client: str
    script: str
    folder: str
    store: str = "sqlite"
    is_nightly: bool = False

    @property
    def name(self) -> str:
        return self.client if self.store == "sqlite" else f"{self.client}-{self.store}"

    @property
    def is_javascript(self) -> bool:
        return self.script.endswith(".mjs")

    def command(self) -> list[str]:
        return ["node" if self.is_javascript else sys.executable, str(SCRIPTS / "rows" / self.script)]

    def environment(self) -> dict[str, str]:
        folder = str(CLIENTS / self.folder)
        if self.is_javascript:
            return {**os.environ, "CLIENT": folder}
        inherited = [path for path in (os.environ.get("PYTHONPATH"),) if path]
        return {**os.environ, "PYTHONPATH": os.pathsep.join([folder, str(SCRIPTS), *inherited])}


COLUMNS = (
    *(
        Column(f"python-{version}", "llama_stack.py", version, is_nightly=version not in ("0.2.12", "0.3.5"))
        for version in ("0.1.9", "0.2.0", "0.2.12", "0.2.23", "0.3.5")
    ),
    Column("python-0.2.12", "llama_stack.py", "0.2.12", store="dynamodb"),
    Column("typescript-0.2.23", "llama_stack.mjs", "typescript-0.2.23", is_nightly=True),
    Column("typescript-0.3.0", "llama_stack.mjs", "typescript-0.3.0"),
    Column("openai", "openai_sdk.py", "openai"),
    Column("openai-agents", "openai_agents_sdk.py", "openai"),
    Column("langchain-openai", "langchain_sdk.py", "openai", is_nightly=True),
)


def outcomes(
    column: Column, *arguments: str, timeout_s: float = TIMEOUT_S, environment: Mapping[str, str] = MappingProxyType({})
) -> Iterator[dict[str, Any]]:
    """Yield the outcome of each row that the client has; the process waits until the next is requested."""
    with tempfile.TemporaryFile("w+") as complaints:
        process = subprocess.Popen(
            [*column.command(), *arguments],
            env={**column.environment(), **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
        )
        watchdog = Timer(timeout_s, process.kill)
        watchdog.start()
        try:
            yield from answered(process)
            if process.wait() != 0:
                complaints.seek(0)
                raise RuntimeError(f"{column.name} ended with {process.returncode}: {complaints.read()}")
        finally:
            watchdog.cancel()
            process.kill()
            process.wait()


def answered(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        for line in process.stdout:
            if not line.startswith("{"):  # the client's own output
                continue
            yield json.loads(line)
            process.stdin.write("\n")
            process.stdin.flush()
