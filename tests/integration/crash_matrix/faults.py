"""Every call of every port is counted, and any one of them can fail: before its effect or after it.

The clock and the ids are ports, too, but nothing in them can fail.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tests.support.engine.harness import ProcessDied
from turnstone.domain.errors import FetchFailed, ModelFailed, ShieldFailed, StoreUnavailable, ToolFailed
from turnstone.domain.jobs import Job
from turnstone.domain.models.requests import InferenceRequest, Inferred, TextChunk
from turnstone.domain.models.routing import Target
from turnstone.domain.refs import TurnRef
from turnstone.domain.registry.registry import Shield, Toolgroup
from turnstone.domain.sessions.sessions import SessionLock
from turnstone.domain.shields.verdicts import ShieldQuestion
from turnstone.domain.tools.tool_runs import ToolAsker, ToolInvocation, ToolResult
from turnstone.domain.tools.tools import ToolDef
from turnstone.domain.turns.turns import Verdict
from turnstone.ports.models import Capability, Inference
from turnstone.ports.records import Get, Key, KeyPage, Operation, Range, Record, RecordPage
from turnstone.ports.shields import RunnableShield, ShieldKinds
from turnstone.ports.storage import BlobStore, RangeStore
from turnstone.ports.supervision import Jobs, Supervisor
from turnstone.ports.tools import PythonRunner, Toolbox, ToolKinds
from turnstone.ports.webhooks import WebhookSender

PORTS = ("store", "blobs", "model", "tools", "shields", "supervisor", "jobs", "receiver")


class Moment(StrEnum):
    BEFORE = "before"
    AFTER = "after"


class Blow(StrEnum):
    DEATH = "the process dies"
    ERROR = "the call fails"


@dataclass(frozen=True)
class PortCall:
    """A call of a port, counted from 1 among those of its verb: threads call different verbs at the same time."""

    port: str
    verb: str
    number: int


@dataclass(frozen=True)
class Fault:
    call: PortCall
    moment: Moment
    blow: Blow

    def __str__(self) -> str:
        return f"{self.blow} {self.moment} {self.call.port}.{self.call.verb} {self.call.number}"


class Faults:
    """Counts the calls of all processes from `begin` on, and strikes at one of them, if configured, once."""

    def __init__(self, fault: Fault | None = None) -> None:
        self.fault = fault
        self.calls: list[PortCall] = []
        self.has_struck = False
        self._counts: Counter[tuple[str, str]] = Counter()
        self._is_counting = False
        self._lock = threading.Lock()

    def begin(self) -> None:
        self._is_counting = True

    def end(self) -> None:
        self._is_counting = False

    def counted(self, port: str, verb: str) -> PortCall | None:
        with self._lock:
            if not self._is_counting:
                return None
            self._counts[port, verb] += 1
            self.calls.append(PortCall(port, verb, self._counts[port, verb]))
            return self.calls[-1]

    def is_due(self, call: PortCall | None, moment: Moment) -> bool:
        if self.fault is None or call != self.fault.call or moment is not self.fault.moment:
            return False
        self.has_struck = True
        return True


class Line:
    """A process's way to its ports: dead once the process is."""

    def __init__(self, faults: Faults, die: Callable[[], None], is_dead: Callable[[], bool]) -> None:
        self._faults = faults
        self._die = die
        self._is_dead = is_dead

    def call(self, port: str, verb: str, effect: Callable[[], Any], error: type[Exception] = StoreUnavailable) -> Any:
        ended = self.begin(port, verb, error)
        try:
            return effect()
        finally:
            ended()  # also after a refusal, which can get lost as any answer can

    def begin(self, port: str, verb: str, error: type[Exception]) -> Callable[[], None]:
        """Begin a call; return the function to call after its effect."""
        if self._is_dead():
            raise ProcessDied
        call = self._faults.counted(port, verb)
        self._strike(call, Moment.BEFORE, error)
        return lambda: self._strike(call, Moment.AFTER, error)

    def _strike(self, call: PortCall | None, moment: Moment, error: type[Exception]) -> None:
        if self._faults.is_due(call, moment):
            if self._faults.fault is not None and self._faults.fault.blow is Blow.DEATH:
                self._die()
            raise error("not now")


class FaultyStore:
    """A RangeStore over such a line. `on_written` receives each stored write, even if the caller never does."""

    def __init__(self, inner: RangeStore, line: Line, on_written: Callable[[Sequence[Operation]], None]) -> None:
        self._inner = inner
        self._line = line
        self._on_written = on_written

    def get(self, key: Key) -> Record | None:
        return self._line.call("store", "get", lambda: self._inner.get(key))

    def range(self, query: Range) -> RecordPage:
        return self._line.call("store", "range", lambda: self._inner.range(query))

    def gather(self, gets: Sequence[Get], ranges: Sequence[Range]) -> tuple[list[Record | None], list[RecordPage]]:
        return self._line.call("store", "gather", lambda: self._inner.gather(gets, ranges))

    def write(self, operations: Sequence[Operation], nonce: str | None = None) -> None:
        def effect() -> None:
            self._inner.write(operations, nonce)
            self._on_written(operations)

        self._line.call("store", "write", effect)

    def open_keys(self, shard: str, limit: int, after: Key | None = None) -> KeyPage:
        return self._line.call("store", "open_keys", lambda: self._inner.open_keys(shard, limit, after))

    def clear(self, pk: str, limit: int, sk: str | None = None) -> bool:
        return self._line.call("store", "clear", lambda: self._inner.clear(pk, limit, sk))


class FaultyBlobs:
    def __init__(self, inner: BlobStore, line: Line) -> None:
        self._inner = inner
        self._line = line

    def put(self, name: str, body: bytes) -> None:
        self._line.call("blobs", "put", lambda: self._inner.put(name, body))

    def get(self, name: str) -> bytes | None:
        return self._line.call("blobs", "get", lambda: self._inner.get(name))

    def pieces(self, name: str) -> Iterator[bytes]:
        return self._line.call("blobs", "pieces", lambda: self._inner.pieces(name))

    def delete(self, name: str) -> None:
        self._line.call("blobs", "delete", lambda: self._inner.delete(name))

    def clear(self, prefix: str, limit: int) -> bool:
        return self._line.call("blobs", "clear", lambda: self._inner.clear(prefix, limit))


class FaultyModel:
    """A model that can fail after its words, before the answer is whole."""

    def __init__(self, inner: Inference, line: Line) -> None:
        self._inner = inner
        self._line = line

    def stream(self, request: InferenceRequest) -> Iterator[TextChunk | Inferred]:
        ended = self._line.begin("model", "stream", ModelFailed)
        *words, answer = self._inner.stream(request)
        yield from words
        ended()
        yield answer

    def models(self) -> tuple[str, ...]:
        return self._inner.models()

    def capabilities(self, targets: Sequence[Target] = ()) -> frozenset[Capability]:
        return self._inner.capabilities(targets)


class FaultyTools:
    """Kinds of tools all of which run over the line."""

    def __init__(self, inner: ToolKinds, line: Line) -> None:
        self._inner = inner
        self._line = line

    def builtin(self) -> tuple[str, ...]:
        return self._inner.builtin()

    def build(self, group: Toolgroup) -> Toolbox:
        return _FaultyToolbox(self._inner.build(group), self._line)

    def offered_as(self, group_id: str, name: str) -> str:
        return self._inner.offered_as(group_id, name)

    def remote(self) -> Toolbox:
        return _FaultyToolbox(self._inner.remote(), self._line)

    def python(self) -> PythonRunner | None:
        return self._inner.python()


class _FaultyToolbox:
    def __init__(self, inner: Toolbox, line: Line) -> None:
        self._inner = inner
        self._line = line

    def tools(self, asker: ToolAsker) -> tuple[ToolDef, ...]:
        return self._inner.tools(asker)

    def invoke(self, invocation: ToolInvocation) -> ToolResult:
        return self._line.call("tools", "invoke", lambda: self._inner.invoke(invocation), ToolFailed)


class FaultyShields:
    """Kinds of shields all of which judge over the line."""

    def __init__(self, inner: ShieldKinds, line: Line) -> None:
        self._inner = inner
        self._line = line

    def build(self, registered: Shield) -> RunnableShield:
        return _FaultyShield(self._inner.build(registered), self._line)


class _FaultyShield:
    def __init__(self, inner: RunnableShield, line: Line) -> None:
        self._inner = inner
        self._line = line

    def judge(self, question: ShieldQuestion) -> Verdict:
        return self._line.call("shields", "judge", lambda: self._inner.judge(question), ShieldFailed)


class FaultySupervisor:
    def __init__(self, inner: Supervisor, line: Line) -> None:
        self._inner = inner
        self._line = line

    def watch(self, turn: TurnRef, lock: SessionLock) -> None:
        self._line.call("supervisor", "watch", lambda: self._inner.watch(turn, lock))

    def wake(self, token: str) -> None:
        self._line.call("supervisor", "wake", lambda: self._inner.wake(token))


class FaultyJobs:
    def __init__(self, inner: Jobs, line: Line) -> None:
        self._inner = inner
        self._line = line

    def send(self, job: Job) -> None:
        self._line.call("jobs", "send", lambda: self._inner.send(job))

    def send_all(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self.send(job)


class FaultyReceiver:
    def __init__(self, inner: WebhookSender, line: Line) -> None:
        self._inner = inner
        self._line = line

    @property
    def is_stopped(self) -> bool:
        return False

    def check(self, url: str) -> None:
        self._inner.check(url)

    def send(self, url: str, headers: Mapping[str, str], body: bytes) -> int:
        return self._line.call("receiver", "send", lambda: self._inner.send(url, headers, body), Unreachable)


class Unreachable(FetchFailed):
    def __init__(self, why: str) -> None:
        super().__init__("https://hooks.example", why)
