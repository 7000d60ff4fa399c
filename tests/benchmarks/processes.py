"""The processes under test: Turnstone as `make run` starts it, and the model server it asks."""

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.http_client import HOST, Connection

REPOSITORY = Path(__file__).parents[2]
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
LOOK_AGAIN_S = 0.002
CHOSEN_PORTS = range(20_000, 30_000)


@dataclass(frozen=True, slots=True)
class Server:
    """Turnstone in a process of its own.

    Attributes:
        ready_s: how long after its start it answered for the first time.
    """

    port: int
    pid: int
    ready_s: float

    def connect(self) -> Connection:
        return Connection(self.port)

    def memory_mb(self) -> float:
        """Return the memory it holds now."""
        command = ["ps", "-o", "rss=", "-p", str(self.pid)]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / 1_024

    def cpu_s(self) -> float:
        """Return the processor time it has taken so far, user and system."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def turnstone(folder: Path, model_port: int | None = None, **settings: object) -> Iterator[Server]:
    """Serve the data in the folder; further settings are named as in Settings."""
    port = _free_port()
    given = {"port": port, "data_dir": folder, "drain_seconds": 0, **settings}
    if model_port is not None:
        given["model_url"] = f"http://{HOST}:{model_port}/v1"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TURNSTONE_")}
    environment |= {f"TURNSTONE_{name.upper()}": str(value) for name, value in given.items()}
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "server.log").open("ab") as log:
        began = time.perf_counter()
        command = [sys.executable, "-m", "functions.local"]
        process = subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=log, stderr=log)
        try:
            _wait_until_ready(process, port, log.name)
            yield Server(port, process.pid, time.perf_counter() - began)
        finally:
            _stop(process)


@contextmanager
def model_server() -> Iterator[int]:
    """Run the model server; yields its port."""
    command = [sys.executable, "-m", "tests.benchmarks.model_server"]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            _stop(process)


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, log: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            with Connection(port) as connection:
                connection.get("/v1/health").json()
            return
        except ConnectionRefusedError:
            assert process.poll() is None, Path(log).read_text()
            assert time.monotonic() < deadline, "the server did not start in time"
            time.sleep(LOOK_AGAIN_S)


def _free_port() -> int:
    # Not one the system would choose: it might give the same to a connection before the server takes it.
    for port in random.sample(CHOSEN_PORTS, k=len(CHOSEN_PORTS)):
        with suppress(OSError), socket.create_server((HOST, port)):
            return port
    raise AssertionError("there is no free port")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
