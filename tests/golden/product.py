"""Adapter between golden transcripts and the product: servers with a manual clock, seeded ids and manual jobs.

The only module of this package that imports the product, so that moves and renames in the product change this one only.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any, get_args

import pytest
from starlette.types import ASGIApp

from functions.local import server as local
from functions.unserved import methods as unserved
from tests.golden.writing import compact
from tests.support.engine.harness import FakeClock, ManualSupervisor, eventually
from turnstone import VERSION
from turnstone.adapters.machine.system import RandomIds, SystemClock
from turnstone.adapters.models.openai.openai_wire import request_body
from turnstone.bootstrap.places import local as bootstrap
from turnstone.bootstrap.places.local import LocalServer
from turnstone.dialects.llama_stack.turns.stream import TurnStream
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import StoreUnavailable
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.refs import TurnRef
from turnstone.domain.shields.verdicts import ShieldQuestion
from turnstone.domain.tools.tool_runs import ToolInvocation
from turnstone.domain.turns.events import Numbered, StepProgressed, TurnEvent
from turnstone.domain.turns.failures import Failure, FailureKind
from turnstone.domain.values.ids import milliseconds, order_key, uuid7
from turnstone.http.errors import STATUS
from turnstone.ports.storage import BlobStore, RangeStore
from turnstone.services.access.api_keys import ApiKeys
from turnstone.services.streams.broadcast import TurnBroadcast
from turnstone.settings.local_settings import LocalSettings
from turnstone.store.access.api_keys import ApiKeyStore
from turnstone.store.layout import oversize

__all__ = ["Broadcast", "Event", "FakeClock"]

Event = TurnEvent
Broadcast = TurnBroadcast

FAILURE_KINDS = frozenset(get_args(FailureKind))
STATUSES = frozenset(STATUS.values()) | {500}
ROUTES = tuple((route.method, path, route.takes_slashes) for route in local.ROUTES for path in route.paths)
UNSERVED = tuple((route.method, path, route.takes_slashes) for route in unserved.ROUTES for path in route.paths)
# labels for the version of the product
VERSIONS = {f"turnstone/{VERSION}": "turnstone/<version>", f'"version":"{VERSION}"': '"version":"<version>"'}
LEASE_S = 3_600  # renewed a third of it in, by the real clock: never while a scenario lasts
COUNTED = 1 << 12
LOCAL_TENANT = "local"
SMALL_RECORD_BYTES = 2_000


class SeededIds:
    """UUIDv7 of the clock's time: ids of one millisecond sort in the order of creation, other bits are random."""

    def __init__(self, clock: FakeClock, seed: int) -> None:
        self._clock = clock
        self._random = random.Random(seed)
        self._numbers = count()
        self._lock = Lock()

    def new_id(self) -> str:
        return uuid7(milliseconds(self._clock.now()), self._randomness())

    def order_key(self, at: datetime, previous: str | None) -> str:
        return order_key(at, previous, self._randomness())

    def _randomness(self) -> bytes:
        with self._lock:
            return (next(self._numbers) % COUNTED).to_bytes(2) + self._random.randbytes(8)


class WaitingSupervisor(ManualSupervisor):
    """A supervisor that runs on demand."""

    def start(self, reconcile: Callable[[TurnRef], datetime | None], open_turns: Sequence[TurnRef]) -> None:
        self.reconcile = reconcile
        for turn in open_turns:
            self.schedule_check(turn, self._clock.now())

    def close(self) -> None:
        """Do nothing: no thread runs."""


class WaitingJobs:
    """Jobs that run on demand."""

    def __init__(self, name: str, at_once: int = 1) -> None:
        """Take the name of a thread, and the number of parallel jobs; there are no threads."""

    def start(self, due: Callable[[], Sequence[Any]], run: Callable[[Any], None]) -> None:
        self._due, self._run = due, run

    def send(self, job: Any) -> None:
        """Do nothing: the store has the job."""

    def send_all(self, jobs: Sequence[Any]) -> None:
        """Do nothing: the store has the jobs."""

    def close(self) -> None:
        """Do nothing: no thread runs."""

    def work(self) -> None:
        while jobs := self._due():
            for job in jobs:
                self._run(job)


class Breakable:
    """A store whose calls raise `problem` if it is set."""

    def __init__(self, inner: RangeStore) -> None:
        self._inner = inner
        self.problem: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        used = getattr(self._inner, name)

        def call(*args: Any, **named: Any) -> Any:
            if self.problem is not None and name != "close":
                raise self.problem
            return used(*args, **named)

        return call


class Payloads:
    """A payload store that can delete all payloads stored through it."""

    def __init__(self, inner: BlobStore) -> None:
        self._inner = inner
        self._names: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def put(self, name: str, body: bytes) -> None:
        self._names.append(name)
        self._inner.put(name, body)

    def lose(self) -> None:
        for name in self._names:
            self._inner.delete(name)


class Product:
    """One server process; its app is not started."""

    def __init__(self, stores: Callable[[Path], tuple[RangeStore, BlobStore]], folder: Path, **settings: Any) -> None:
        """Build the server; `stores` returns the record and payload store for a data folder."""
        chosen = LocalSettings.model_validate({"data_dir": folder, "lease_seconds": LEASE_S, **settings})
        with pytest.MonkeyPatch.context() as patch:
            records, blobs = stores(folder)
            self.records, self._payloads = Breakable(records), Payloads(blobs)
            patch.setattr(bootstrap, "SqliteRangeStore", lambda *_: self.records)
            patch.setattr(bootstrap, "FileBlobStore", lambda _: self._payloads)
            patch.setattr(bootstrap, "LocalSupervisor", WaitingSupervisor)
            patch.setattr(bootstrap, "LocalJobs", WaitingJobs)
            self._server = LocalServer(chosen)
            self.app: ASGIApp = local.build_local_app(chosen, self._server)
        self._supervisor: Any = self._server._supervisor
        self._jobs: tuple[Any, ...] = (self._server._ingest_jobs, self._server._jobs)

    def settle(self) -> None:
        """Wait until no turn runs or cleans up."""
        executor = self._server.core.executor
        eventually(lambda: executor.taken == 0 and not executor._running)

    def has_published_text(self) -> bool:
        """Return whether a running turn has published a piece of its answer."""
        running = self._server.core.broadcasts.all()
        return any(isinstance(event, StepProgressed) for broadcast in running for event in broadcast.events)

    def reconcile(self) -> None:
        """Run the supervisor for all turns that are due."""
        self._supervisor.reconcile_due(self._supervisor.reconcile)
        self.settle()

    def work(self) -> None:
        """Run the clean-up jobs that are due."""
        for jobs in self._jobs:
            jobs.work()

    def hand_over(self, agent_id: str, session_id: str, turn_id: str) -> None:
        """Hand off a running turn, as a process does when its time is over."""
        ref = TurnRef(tenant=LOCAL_TENANT, agent_id=agent_id, session_id=session_id, turn_id=turn_id)
        self._server.core.turns.hand_off(ref)

    def take_over(self, agent_id: str, session_id: str, turn_id: str) -> None:
        """Reconcile a turn of a process that has ended."""
        ref = TurnRef(tenant=LOCAL_TENANT, agent_id=agent_id, session_id=session_id, turn_id=turn_id)
        self._supervisor.reconcile(ref)
        self.settle()

    def begin_to_stop(self) -> None:
        """Begin to shut down: running turns may finish."""
        self._server.begin_to_stop()

    def key(self, name: str, tenant: str, **groups: tuple[str, ...]) -> str:
        """Create an API key, deterministic by name."""
        caller = Caller(tenant=tenant, principal=name, **groups)
        keys = ApiKeys(ApiKeyStore(self.records), SystemClock(), RandomIds(), lambda size: _bytes_of(name, size))
        return keys.create(caller, name)[1]

    def lose_payloads(self) -> None:
        """Delete every payload that this process has stored outside of records."""
        self._payloads.lose()

    def break_store(self, problem: Exception | None = None) -> None:
        self.records.problem = problem or StoreUnavailable("the disk is gone")

    def mend_store(self) -> None:
        self.records.problem = None


def _bytes_of(name: str, size: int) -> bytes:
    return sha256(name.encode()).digest()[:size]


@contextmanager
def failures_noted() -> Iterator[set[str]]:
    """Collect the kinds of all failures that are created within the block."""
    kinds: set[str] = set()
    make = Failure.__init__

    def noted(failure: Failure, **fields: Any) -> None:
        make(failure, **fields)
        kinds.add(failure.kind)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Failure, "__init__", noted)
        yield kinds


@contextmanager
def steadied(clock: FakeClock, seed: int) -> Iterator[None]:
    """Make every part of the product use this clock and seeded ids within the block."""
    ids = SeededIds(clock, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SystemClock, "now", lambda _: clock.now())
        patch.setattr(SystemClock, "monotonic_s", lambda _: clock.monotonic_s())
        patch.setattr(RandomIds, "new_id", lambda _: ids.new_id())
        patch.setattr(RandomIds, "order_key", lambda _, at, previous: ids.order_key(at, previous))
        yield


def small_records(patch: pytest.MonkeyPatch) -> None:
    """Lower the size limit of records to a few kilobytes."""
    patch.setattr(oversize, "RECORD_BYTES", SMALL_RECORD_BYTES)


def encode(event: TurnEvent) -> bytes:
    """Return the event as a stream of turns sends it."""
    return TurnStream().encode(Numbered(event, None))


def describe_model_request(_: object, request: InferenceRequest) -> tuple[str, str, bytes]:
    """Return a model request as the body for an OpenAI-compatible server."""
    return "to a model", "", compact(request_body(request, "vllm")).encode()


def describe_tool_call(_: object, run: ToolInvocation) -> tuple[str, str, bytes]:
    """Return a tool call."""
    values = {"tool": run.call.tool_name, "arguments": run.arguments, "key": run.idempotency_key}
    return "to a tool", f"{run.call.call_id} 1", compact(values).encode()


def describe_shield_request(shield: Any, question: ShieldQuestion) -> tuple[str, str, bytes]:
    """Return a request to a shield."""
    judged = [{"role": message.role, "content": message.content} for message in question.judged]
    values = {"shield": shield.name, "at": question.touchpoint, "call": question.call_id, "judged": judged}
    phase = 0 if question.touchpoint == "tool-input" else 2
    return "to a shield", f"{question.call_id} {phase} {shield.name}", compact(values).encode()
