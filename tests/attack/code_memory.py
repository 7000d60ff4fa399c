"""Many code calls at once, each of which takes all the memory it may: the limit of calls at a time bounds their sum."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from tests.attack.finding import Attack, Finding
from tests.support.clients.plain_client import PlainClient
from tests.support.server.servers import ServerProcess

SLOTS = 4
OF_ONE_TENANT = 3
MEMORY_MB = 128
TAKEN_MB = 80
RUNS_S = 1.7
CONFIG = f"""
[tools.code_interpreter]
runs = "here"
memory_mb = {MEMORY_MB}
timeout_seconds = 3
calls_at_a_time = {SLOTS}
"""
CODE = (
    f"taken = bytearray({TAKEN_MB} << 20)\ntaken[::4096] = b'x' * len(taken[::4096])\nimport time; time.sleep({RUNS_S})"
)
INVOKE = "/v1/tool-runtime/invoke"
RAN = ("completed", "timed out", "This tool gave no answer within 3 s")
IN_VAIN = re.compile(r"it waited [0-9.]+ s for a place, and 4 calls at a time may run here")


def run(folder: Path, full: bool) -> Iterator[Finding]:
    """Call a server's code interpreter many times at once."""
    calls = 40 if full else 10
    (config := folder / "turnstone.toml").write_text(CONFIG)
    with (
        ServerProcess(folder, config=config, tool_timeout_seconds=3) as server,
        PlainClient(server.url) as client,
        ThreadPoolExecutor(calls) as threads,
    ):
        ready = _output_of(client, "print('ready')")
        assert "ready" in ready, ready
        called = [threads.submit(_output_of, client, CODE) for _ in range(calls)]
        most_mb, most_running = _most_held(server.pid, called)
        outputs = [one.result() for one in called]
    ended = sum(one.startswith(RAN) for one in outputs)
    in_vain = sum(bool(IN_VAIN.search(one)) for one in outputs)
    what = f"{calls} code calls of {TAKEN_MB} MB at once, {SLOTS} at a time allowed"
    bar_mb = OF_ONE_TENANT * MEMORY_MB
    yield Finding(
        what,
        f"{most_running} at a time, {most_mb:.0f} MB in all",
        f"1 to {OF_ONE_TENANT} of a tenant, {bar_mb} MB",
        0 < most_running <= OF_ONE_TENANT and TAKEN_MB < most_mb <= bar_mb,
    )
    yield Finding(
        what,
        f"{ended} ran, {in_vain} waited in vain and said so, {calls - ended - in_vain} otherwise",
        "some of both, no others",
        ended >= 1 and in_vain >= 1 and ended + in_vain == calls,
    )


def _output_of(client: PlainClient, code: str) -> str:
    response = client.post(INVOKE, {"tool_name": "code_interpreter", "kwargs": {"code": code}})
    assert response.status_code == 200, response.text
    answer = response.json()
    return str(answer["content"] or answer.get("error_message"))


def _most_held(server_pid: int, called: list[Future[str]]) -> tuple[float, int]:
    """Return the most memory that the code's processes held at a time, in MB, and the most that held a code's share."""
    most_mb, most_running = 0.0, 0
    while wait(called, timeout=0.05).not_done:
        held = [_anonymous_mb(process) for process in _descendants(server_pid)]
        taking = [megabytes for megabytes in held if megabytes > TAKEN_MB]
        most_mb, most_running = max(most_mb, sum(held)), max(most_running, len(taking))
    return most_mb, most_running


def _descendants(process: int) -> Iterator[int]:
    try:
        children = [
            int(child)
            for task in Path(f"/proc/{process}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    except OSError:
        return
    for child in children:
        yield child
        yield from _descendants(child)


def _anonymous_mb(process: int) -> float:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"^RssAnon:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


ATTACK = Attack("code calls' memory", run)
