"""Clients that send one request after the other, all in one thread that the system wakes.

So they take hardly any processor time from the server they measure, and they report their own share.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from tests.benchmarks.http_client import HOST, READ_BYTES, is_whole, read

SILENCE_TIMEOUT_S = 180.0
# An operation yields its requests, encoded, and is sent the body of each one's answer.
Operation = Generator[bytes, bytes, Any]


class Failed(Exception):
    """An operation was not answered as it should be."""


@dataclass
class DrivenLoad:
    """The results of a load.

    Attributes:
        times_s: how long each operation took that went well, in the order in which they ended.
        took_s: from the first request to the last answer.
        own_cpu_s: the clients' own processor time in it.
        failures: why each of the others failed.
    """

    times_s: list[float] = field(default_factory=list)
    took_s: float = 0.0
    own_cpu_s: float = 0.0
    failures: list[str] = field(default_factory=list)

    def add(self, other: DrivenLoad) -> None:
        """Add the results of a further load."""
        self.times_s += other.times_s
        self.took_s += other.took_s
        self.own_cpu_s += other.own_cpu_s
        self.failures += other.failures


def drive(port: int, operations: Iterator[Operation], clients: int, seconds: float) -> DrivenLoad:
    """Run the operations over so many clients until the time is over or none is left; finish those begun.

    Raises AssertionError if the server is silent for long.
    """
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        # Connections are made before the clock starts.
        waiting = [_Client(port, stack) for _ in range(clients)]
        load = DrivenLoad()
        cpu_before_s = time.process_time()
        began = time.perf_counter()
        for client in waiting:
            if client.begin(operations):
                selector.register(client.socket, selectors.EVENT_READ, client)
        while selector.get_map():
            ready = selector.select(SILENCE_TIMEOUT_S)
            assert ready, f"the server has been silent for {SILENCE_TIMEOUT_S} s"
            for key, _ in ready:
                client = key.data
                if not client.has_ended(load):
                    continue
                selector.unregister(key.fileobj)
                is_over = time.perf_counter() - began >= seconds
                if not is_over and client.begin(operations):
                    selector.register(client.socket, selectors.EVENT_READ, client)
        load.took_s = time.perf_counter() - began
        load.own_cpu_s = time.process_time() - cpu_before_s
    return load


def quantile(times_s: Sequence[float], share: float) -> float:
    """Return the time that this share of them took at most; 0 of none."""
    in_order = sorted(times_s)
    return in_order[max(0, ceil(share * len(in_order)) - 1)] if in_order else 0.0


class _Client:
    """One connection, and the operation under way over it."""

    def __init__(self, port: int, stack: ExitStack) -> None:
        self._port = port
        self._stack = stack
        self._answer = bytearray()
        self._began = 0.0
        self._operation: Operation
        self._connect()

    def begin(self, operations: Iterator[Operation]) -> bool:
        """Begin the next operation; return whether there was one."""
        operation = next(operations, None)
        if operation is None:
            return False
        self._operation = operation
        request = next(operation)
        self._began = time.perf_counter()
        self.socket.sendall(request)
        return True

    def has_ended(self, load: DrivenLoad) -> bool:
        """Read an answer, send the operation's next request; return whether it has ended, its result in `load`."""
        try:
            part = self.socket.recv(READ_BYTES)
            if not part:
                raise ConnectionResetError("the server hung up")
            self._answer += part
            if not is_whole(self._answer):
                return False
            whole_at = time.perf_counter()
            status, body = read(bytes(self._answer))
            self._answer.clear()
            if status != 200:
                raise Failed(f"{status}: {body[:300]!r}")
            self.socket.sendall(self._operation.send(body))
        except StopIteration:
            load.times_s.append(whole_at - self._began)
        except Failed as failure:
            load.failures.append(str(failure))
        except ConnectionError as failure:
            load.failures.append(repr(failure))
            self._answer.clear()
            self._connect()
        else:
            return False
        return True

    def _connect(self) -> None:
        self.socket = self._stack.enter_context(socket.create_connection((HOST, self._port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
