"""The processes under test: Turnstone as `make run` starts it, or another server, and its model server."""

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.http_client import HOST, Connection

REPOSITORY = Path(__file__).parents[2]
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
POLL_S = 0.002
CHOSEN_PORTS = range(20_000, 30_000)


@dataclass(frozen=True, slots=True)
class Server:
    """A server in a process of its own, with those that it has started; all are counted together.

    Attributes:
        ready_s: how long after its start it answered for the first time.
    """

    port: int
    pid: int
    ready_s: float

    def connect(self) -> Connection:
        return Connection(self.port)

    def pids(self) -> tuple[int, ...]:
        """Return its process, and those that this one has started."""
        started = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        return (self.pid, *map(int, started.split()))

    def memory_mb(self) -> float:
        """Return the memory it holds now; what its processes share is counted for each."""
        return self._memory_mb("VmRSS")

    def peak_memory_mb(self) -> float:
        """Return the most memory it has ever held."""
        return self._memory_mb("VmHWM")

    def cpu_s(self) -> float:
        """Return the processor time it has taken so far, user and system."""
        stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self.pids()]
        return sum(int(fields[11]) + int(fields[12]) for fields in stats) / os.sysconf("SC_CLK_TCK")

    def _memory_mb(self, name: str) -> float:
        held_kb = 0
        for pid in self.pids():
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            held_kb += int(next(line.split()[1] for line in lines if line.startswith(name)))
        return held_kb / 1_024


@dataclass(frozen=True, slots=True)
class Program:
    """How a server is started.

    Attributes:
        folder: where it runs.
        log: the file of its output.
        port: where it will answer.
        patience_s: how long it may take until it does.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    log: Path
    port: int
    patience_s: float = START_TIMEOUT_S


@contextmanager
def started(program: Program) -> Iterator[Server]:
    """Run a server; yields it once it answers."""
    with program.log.open("ab") as log:
        began = time.perf_counter()
        process = subprocess.Popen(program.command, cwd=program.folder, env=program.environment, stdout=log, stderr=log)
        try:
            _wait_until_ready(process, program)
            yield Server(program.port, process.pid, time.perf_counter() - began)
        finally:
            _stop(process)


@contextmanager
def turnstone(folder: Path, model_port: int | None = None, **settings: object) -> Iterator[Server]:
    """Serve the data in the folder; further settings are named as in Settings."""
    port = free_port()
    given = {"port": port, "data_dir": folder, "drain_seconds": 0, **settings}
    if model_port is not None:
        given["model_url"] = f"http://{HOST}:{model_port}/v1"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TURNSTONE_")}
    environment |= {f"TURNSTONE_{name.upper()}": str(value) for name, value in given.items()}
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "turnstone", "serve"]
    with started(Program(command, environment, REPOSITORY, folder / "server.log", port)) as server:
        yield server


@contextmanager
def model_server(*models: str) -> Iterator[Server]:
    """Run the model server, with these models besides its own, which answer as the model that a message names."""
    command = [sys.executable, "-m", "tests.benchmarks.model_server", *models]
    began = time.perf_counter()
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield Server(int(process.stdout.readline()), process.pid, time.perf_counter() - began)
        finally:
            _stop(process)


def _wait_until_ready(process: subprocess.Popen[bytes], program: Program) -> None:
    deadline = time.monotonic() + program.patience_s
    while True:
        try:
            with Connection(program.port) as connection:
                assert connection.get("/v1/health").status == 200
            return
        except ConnectionRefusedError:
            assert process.poll() is None, program.log.read_text()
            assert time.monotonic() < deadline, "the server did not start in time"
            time.sleep(POLL_S)


def free_port() -> int:
    """Return a free port of this machine."""
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
