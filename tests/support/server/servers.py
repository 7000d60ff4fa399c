"""The real server and the loopback model server, each as a process of its own."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from tests.support.starts.warm_starts import Process, WarmProcess, are_warm

ROOT = Path(__file__).resolve().parents[3]
HOST = "127.0.0.1"
PYTHON_MODULE = [sys.executable, "-m"]
PORTS = range(20_000, 32_000)  # below those the kernel gives to outgoing connections, so that a restart finds it free
START_TIMEOUT_S = 30.0
POLL_S = 0.02
SHOWN_LOG_CHARACTERS = 8_000


class ServerProcess:
    """The local server over a data directory; it can be killed and restarted at the same address.

    It runs within the `with` block, unless it was ended; its log is shown when the test fails.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int | None = None,
        authorization: str | None = None,
        before_start: Callable[[], None] | None = None,
        **settings: object,
    ) -> None:
        """Prepare a server.

        Args:
            folder: where its data and its log go.
            authorization: the header for the readiness check, if the server requires one.
            before_start: called in its process before the server starts.
            settings: further settings, named as in `config.py`; None leaves one out.
        """
        self.data_dir = folder / "data"
        self.port = port or free_port()
        self._settings = {"port": self.port, "data_dir": self.data_dir, **settings}
        self.authorization = authorization
        self._before_start = before_start
        self._log_path = folder / "server.log"
        self._process: Process | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def log(self) -> str:
        """The output of the server so far, over all restarts."""
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._end()

    def start(self) -> None:
        """Start it and return once it answers."""
        assert self._process is None, "it runs already"
        command, environment = self._command(), self._environment()
        with self._log_path.open("ab") as log, open(os.devnull) as nothing:
            if are_warm() and self._before_start is None and command[:2] == PYTHON_MODULE:
                streams = (nothing.fileno(), log.fileno(), log.fileno())
                self._process = WarmProcess(command[2:], environment, streams)
            else:
                self._process = subprocess.Popen(
                    command,
                    cwd=ROOT,
                    env=environment,
                    stdin=nothing,
                    stdout=log,
                    stderr=log,
                    preexec_fn=self._before_start,
                )
        wait_until(self._answers, START_TIMEOUT_S, "the server did not answer")

    def kill(self) -> None:
        """End it by SIGKILL, without a shutdown."""
        process = self._running()
        process.kill()
        process.wait()
        self._process = None

    def terminate(self, by: signal.Signals = signal.SIGTERM) -> None:
        """Send the signal and return at once; `wait` returns when it has ended."""
        self._running().send_signal(by)

    def wait(self, timeout_s: float) -> int:
        """Return its exit code once it has ended by itself."""
        exit_code = self._running().wait(timeout_s)
        self._process = None
        return exit_code

    def has_ended(self) -> bool:
        """Return whether it has ended by itself."""
        return self._running().poll() is not None

    @property
    def process_id(self) -> int:
        return self._running().pid

    def restart(self) -> None:
        """Kill it and start it again over the same data, at the same address."""
        self.kill()
        self.start()

    @property
    def pid(self) -> int:
        return self._running().pid

    def key_environment(self) -> dict[str, str]:
        """Return the environment for the command that makes keys for it."""
        return server_environment({"data_dir": self.data_dir})

    def _command(self) -> list[str]:
        return server_command()

    def _environment(self) -> dict[str, str]:
        return server_environment(self._settings)

    def _answers(self) -> bool:
        exit_code = self._running().poll()
        assert exit_code is None, f"the server ended with {exit_code}: {self.log}"
        return get_json(self.port, "/v1/health", self.authorization) == {"status": "OK"}

    def _running(self) -> Process:
        assert self._process is not None, "it does not run"
        return self._process

    def _end(self) -> None:
        if self._process is not None:
            self.kill()
        print(f"--- log of the server at {self.url}\n{self.log[-SHOWN_LOG_CHARACTERS:]}")


class ModelProcess:
    """The loopback model server in a process of its own, with its built-in models, while the `with` block lasts."""

    def __init__(self) -> None:
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/v1"

    @property
    def calls(self) -> int:
        """The number of requested chat completions."""
        counts = get_json(self.port, "/__calls")
        assert counts is not None, "the model server does not answer"
        return int(str(counts["calls"]))

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.fakes.models.openai_server", "--port", "0"]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        first_line = self._process.stdout.readline()
        assert first_line.strip().isdecimal(), f"the model server told no port but {first_line!r}"
        self.port = int(first_line)
        return self

    def __exit__(self, *exc_info: object) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


def server_command() -> list[str]:
    return [*PYTHON_MODULE, "turnstone", "serve"]


def server_environment(settings: dict[str, object]) -> dict[str, str]:
    """Return this process's environment with these settings, and no others, for the server."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TURNSTONE_")}
    given = {f"TURNSTONE_{name.upper()}": str(value) for name, value in settings.items() if value is not None}
    return {**inherited, **given}


def free_port() -> int:
    """Return a port without a listener."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port


def get_json(port: int, path: str, authorization: str | None = None) -> dict[str, object] | None:
    """Return the body of a 200 answer, None if no server listens there yet."""
    connection = http.client.HTTPConnection(HOST, port, timeout=START_TIMEOUT_S)
    try:
        connection.request("GET", path, headers={"Authorization": authorization} if authorization else {})
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    assert response.status == 200, (response.status, body)
    answer: dict[str, object] = json.loads(body)
    return answer


def wait_until(is_so: Callable[[], bool], timeout_s: float, otherwise: str) -> None:
    """Return once it is so. Raises AssertionError when that takes too long."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline, f"{otherwise} within {timeout_s:g} s"
        time.sleep(POLL_S)
