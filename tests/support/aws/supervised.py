"""Several Lambdas over a bench: some answer requests, others are the worker that the state machine invokes.

Everything is real but AWS itself, the model and the tools. Two things make the machine hurry: it waits a second where
it would wait for a lease, and where it waits before a retry, the clock of all is put forward instead.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from tests.fakes.models.scripted import Scripted, ToolFunction
from tests.support.aws.aws_events import Context
from tests.support.aws.state_machine import (
    BUCKET,
    SHORT_S,
    TABLE,
    Bench,
    Execution,
    load_definition,
    shortened,
    wait_for,
)
from tests.support.engine.harness import AWAIT_S, LEASE_S, Server
from turnstone.adapters.aws.dynamodb import DynamoRangeStore
from turnstone.adapters.aws.s3 import S3BlobStore
from turnstone.adapters.aws.step_functions import StepFunctionsSupervisor
from turnstone.domain.refs import TurnRef
from turnstone.domain.turns.turns import TurnState, TurnStatus
from turnstone.edge import worker
from turnstone.edge.worker import TurnWorker
from turnstone.ports.records import Key
from turnstone.ports.system import Clock
from turnstone.settings.config import Settings
from turnstone.store.layout.keys import turn_key_of
from turnstone.store.layout.oversize import OversizeStore

Tools = Mapping[str, Mapping[str, ToolFunction]]
ENOUGH_S = 900.0


class JumpingClock:
    """Goes as time does, and can be put forward."""

    def __init__(self) -> None:
        self._ahead = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self._ahead

    def monotonic_s(self) -> float:
        return time.monotonic() + self._ahead.total_seconds()

    def advance(self, seconds: float) -> None:
        self._ahead += timedelta(seconds=seconds)


class SlowClock:
    """Is behind another by so many seconds."""

    def __init__(self, clock: Clock, behind_s: float) -> None:
        self._clock = clock
        self._behind = timedelta(seconds=behind_s)

    def now(self) -> datetime:
        return self._clock.now() - self._behind

    def monotonic_s(self) -> float:
        return self._clock.monotonic_s()


class TableLine:
    """A process's way to the table: a client that may be refused, or receive no answer."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._meanwhile: Callable[[], object] | None = None
        self.is_throttled = False

    def lose_answer(self, meanwhile: Callable[[], object]) -> None:
        """Lose the answer of the next transaction; once the rest has happened, it is sent again, as botocore does."""
        self._meanwhile = meanwhile

    def transact_write_items(self, **request: Any) -> Any:
        answer = self.__getattr__("transact_write_items")(**request)
        if self._meanwhile is None:
            return answer
        meanwhile, self._meanwhile = self._meanwhile, None
        meanwhile()
        return self._client.transact_write_items(**request)

    def __getattr__(self, verb: str) -> Any:
        def call(**request: Any) -> Any:
            if self.is_throttled:
                raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "-"}}, verb)
            return getattr(self._client, verb)(**request)

        return call


class MachineLine:
    """A process's way to the state machine; it may be cut, and a wake-up may take its time."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.is_cut = False
        self.before_wake: Callable[[], object] = lambda: None

    def start_execution(self, **request: Any) -> Any:
        self._refuse_if_cut()
        return self._client.start_execution(**request)

    def send_task_success(self, **request: Any) -> Any:
        self._refuse_if_cut()
        self.before_wake()
        return self._client.send_task_success(**request)

    def _refuse_if_cut(self) -> None:
        if self.is_cut:
            raise EndpointConnectionError(endpoint_url="https://states")


class Process(Server):
    """A Lambda: it serves requests, or runs the worker.

    `time_left_s` is how long Lambda lets an invocation run.
    """

    def __init__(self, bench: Bench, clock: Clock, script: tuple[Scripted, ...], tools: Tools, **settings: Any) -> None:
        own_toolgroups = settings.pop("own_toolgroups", lambda _: ())
        is_on_lambda = settings.pop("is_on_lambda", True)
        self.table, self.machine = TableLine(bench.dynamo), MachineLine(bench.states)
        self._range_store = DynamoRangeStore(self.table, TABLE)
        super().__init__(OversizeStore(self._range_store, S3BlobStore(bench.s3, BUCKET)), clock, script, tools)
        self.supervisor = StepFunctionsSupervisor(self.machine, bench.state_machine_arn, clock, turn_key_of)
        self.load(self.supervisor, Settings(**settings), is_on_lambda=is_on_lambda, own_toolgroups=own_toolgroups)
        self.time_left_s = ENOUGH_S
        self._worker = TurnWorker(__name__)
        self._worker._core = self.core

    def work(self, payload: dict[str, Any]) -> dict[str, Any]:
        return self._worker(payload, Context(int(self.time_left_s * 1_000)))

    def written(self) -> list[frozenset[str]]:
        """Return the writes of this process, a set of kinds of records for each."""
        writes = [call.operations for call in self.store.calls if call.verb == "write"]
        return [frozenset(_kind(operation.key) for operation in operations) for operations in writes]

    def close(self) -> None:
        self.core.leases.close()
        self._range_store.close()


class Stage:
    """The processes of one test around a machine of its own."""

    def __init__(self, bench: Bench, client_waits_s: int | None = None, watches_s: int = SHORT_S) -> None:
        """Take a bench; the machine waits for a client as long as its input states, or so many seconds."""
        self.bench = bench
        self.clock = JumpingClock()
        self.answers: list[dict[str, Any]] = []
        self._processes: list[Process] = []
        self._workers: list[Process] = []
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(4)
        bench.worker = self._invoke
        bench.before_token = lambda: None
        bench.before_retry = self.clock.advance
        bench.refusals.clear()
        bench.retry_waits.clear()
        bench.state_machine_arn = bench.deploy(_hurried(client_waits_s, watches_s))

    def process(self, *script: Scripted, tools: Tools | None = None, behind_s: float = 0, **settings: Any) -> Process:
        """Return another process, with a clock that may be behind that of the others."""
        clock = SlowClock(self.clock, behind_s) if behind_s else self.clock
        settings = {"lease_seconds": LEASE_S, "await_seconds": AWAIT_S, **settings}
        self._processes.append(Process(self.bench, clock, script, tools or {}, **settings))
        return self._processes[-1]

    def worker(self, *script: Scripted, tools: Tools | None = None, time_left_s: float = ENOUGH_S) -> Process:
        """Return a process that the machine invokes next, once; the last one is invoked from then on."""
        process = self.process(*script, tools=tools)
        process.time_left_s = time_left_s
        self._workers.append(process)
        return process

    def execution(self, turn: TurnRef, fence: int | None = None) -> Execution:
        """Return the turn's execution, or that for its run under this fence, once it is started."""
        if fence is None:
            return self.bench.execution(turn.turn_id)
        own = f"{turn.turn_id}-{fence}-"  # and the hour
        name = wait_for(lambda: next((n for n in self.bench.names() if n.startswith(own)), None), lambda: f"no {own}")
        return self.bench.execution(name)

    def token(self, turn: TurnRef, other_than: str | None = None) -> str:
        """Return the token stored with the turn, once it is there."""
        return self.bench.token(turn_key_of(turn), other_than)

    def first_seconds(self, turn: TurnRef) -> int:
        """Return the first wait, in seconds, in the input of the turn's execution."""
        described = self.bench.states.describe_execution(executionArn=self.execution(turn).arn)
        seconds: int = json.loads(described["input"])["seconds"]
        return seconds

    def bus_statuses(self, turn: TurnRef) -> list[str]:
        """Return the final statuses of the turn that were published on the bus."""
        return [e["Detail"]["status"] for e in self.bench.events if e["Detail"]["turn_id"] == turn.turn_id]

    def meanwhile(self, act: Callable[[], Any]) -> Future[Any]:
        """Do something in a thread of its own."""
        return self._threads.submit(act)

    def assert_over(self, turn: TurnRef, status: TurnStatus) -> TurnState:
        """Wait for the end of every execution; assert that they publish the status, and that all is whole.

        Return the turn.
        """
        names = self.bench.names()
        ended = [self.bench.execution(name).ended() for name in names]
        assert [(end.status, end.output and end.output["status"]) for end in ended] == [("SUCCEEDED", status)] * len(
            names
        )
        assert self.bus_statuses(turn) == [status] * len(names)
        reader = self.process()
        reader.assert_whole(turn)
        state = reader.state(turn)
        assert state.status is status
        return state

    def close(self) -> None:
        """End what still runs."""
        self.bench.before_token = lambda: None
        for name in self.bench.names():
            execution = self.bench.execution(name)
            described = self.bench.states.describe_execution(executionArn=execution.arn)
            if described["status"] == "RUNNING":
                self.bench.states.stop_execution(executionArn=execution.arn)
        for process in self._processes:
            process.close()
        self._threads.shutdown()

    def _invoke(self, payload: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            if not self._workers:
                self.worker()
            invoked = self._workers.pop(0) if len(self._workers) > 1 else self._workers[0]
        answer = invoked.work(payload)
        self.answers.append(answer)
        return answer


def staged(bench: Bench, **seconds: int) -> Iterator[Stage]:
    """Yield a stage and close it afterwards: the body of a fixture."""
    stage = Stage(bench, **seconds)
    with pytest.MonkeyPatch.context() as patch:
        # the worker reads the system's clock itself, where its services were given theirs
        patch.setattr(worker, "datetime", SimpleNamespace(now=lambda _: stage.clock.now()))
        yield stage
    stage.close()


def refuse_worker_call(payload: dict[str, Any]) -> Mapping[str, Any]:
    """Refuse calls of the worker: the one of a bench without a stage."""
    raise AssertionError(f"no test expects a call of the worker with {payload}")


def until(turn: TurnRef, reader: Server, holds: Callable[[TurnState], bool]) -> TurnState:
    """Return the turn once this holds."""

    def state_if_holds() -> TurnState | None:
        state = reader.state(turn)
        return state if holds(state) else None

    return wait_for(state_if_holds, lambda: f"it never holds: {reader.state(turn)}")


def kinds(state: TurnState) -> list[str]:
    """Return the types of the turn's steps."""
    return [step.step_type for step in state.turn.steps]


def _hurried(client_waits_s: int | None, watches_s: int) -> dict[str, Any]:
    definition = shortened(load_definition())
    watch, wait = definition["States"]["Watch"], definition["States"]["AwaitClient"]
    del watch["SecondsPath"]
    watch["Seconds"] = watches_s
    if client_waits_s is not None:
        del wait["TimeoutSecondsPath"]
        wait["TimeoutSeconds"] = client_waits_s
    return definition


def _kind(key: Key) -> str:
    if "|usage:" in key.pk:
        return "usage"
    return "header" if key.sk == "ctx:~" else key.sk.split(":")[0]
