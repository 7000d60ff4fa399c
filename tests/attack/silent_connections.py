"""More connections than descriptors, that send nothing, half a head or half a body, next to honest clients."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.attack.finding import Attack, Finding
from tests.attack.raw_http import connected, status_of
from tests.support.server.servers import ServerProcess

DESCRIPTORS = 256
SMALL, FULL = 400, 1_500
HONEST_EVERY = 20
WARNING = "were closed for new ones"
MOST_S = 1.0
SENT = {
    "silent connections": b"",
    "connections with half a head": b"GET /v1/health HTTP/1.1\r\nhost: local",
    "connections with half a body": b"POST /v1/agents HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{",
}


def run(folder: Path, full: bool) -> Iterator[Finding]:
    number = FULL if full else SMALL
    for processes in (1, 2):
        home = folder / str(processes)
        home.mkdir()
        server = ServerProcess(home, before_start=_with_few_descriptors, processes=processes)
        with server, ExitStack() as held:
            for what, sent in SENT.items():
                yield _held_open(server, f"{number} {what}, {processes} process(es)", sent, number, held)
            lines = server.log.count(WARNING)
            yield Finding("log lines of that", str(lines), "1 a process", lines == processes)


def _held_open(server: ServerProcess, what: str, sent: bytes, number: int, held: ExitStack) -> Finding:
    statuses, longest_s = [], 0.0
    for position in range(number):
        connection = held.enter_context(connected(server.port))
        connection.sendall(sent)
        if position % HONEST_EVERY == 0:
            began = time.monotonic()
            statuses.append(status_of(server.port))
            longest_s = max(longest_s, time.monotonic() - began)
    answered = statuses.count(200)
    measured = f"{answered} of {len(statuses)} requests answered, {longest_s * 1_000:.0f} ms at most"
    return Finding(what, measured, f"all, {MOST_S:g} s", answered == len(statuses) and longest_s <= MOST_S)


def _with_few_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))


ATTACK = Attack("silent connections", run)
