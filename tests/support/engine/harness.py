"""A whole server over a real database, with a script for a model, a clock that is set by hand and a store that counts.

One `Harness` is one process; `another()` is a second process over the same database. Both read the same clock.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from tests.fakes.jobs import RecordedJobs
from tests.fakes.models.hashed_embeddings import HashedEmbeddings
from tests.fakes.models.scripted import Reply, Scripted, ScriptedInference, ScriptedTools, ToolFunction
from tests.fakes.receiver import ScriptedReceiver
from tests.fakes.shields import ScriptedShields
from turnstone.adapters.machine.system import RandomIds
from turnstone.adapters.sqlite.files import FileBlobStore
from turnstone.adapters.sqlite.sqlite import SqliteRangeStore
from turnstone.adapters.vectors.configured import ConfiguredProviders
from turnstone.bootstrap.core import Core
from turnstone.bootstrap.services.adapters import Ports
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.agents.agents import AgentConfig, TurnOverrides
from turnstone.domain.errors import TurnstoneError
from turnstone.domain.memory.banks import BankKind
from turnstone.domain.messages.messages import InputMessage, Message, UserMessage
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.sessions.context import Segment, rebuilt
from turnstone.domain.sessions.sessions import LockState, Session, SessionLock
from turnstone.domain.tools.tools import ToolDef, ToolResponse
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.events import StepCompleted, StepProgressed, StepStarted, TurnEvent, TurnFailed
from turnstone.domain.turns.turns import NewTurn, Step, Turn, TurnState, TurnStatus
from turnstone.domain.usage.usage import SpentToday, Tokens, spent_by
from turnstone.ports.memory_providers import BankProvider
from turnstone.ports.records import Absent, Delete, Get, Key, KeyPage, Operation, Put, Range, Record, RecordPage, Update
from turnstone.ports.storage import RangeStore
from turnstone.ports.supervision import Supervisor
from turnstone.ports.system import Clock
from turnstone.ports.webhooks import WebhookSender
from turnstone.services.cleanup.cleaning import LATE_PAYLOADS
from turnstone.services.streams.broadcast import TurnBroadcast
from turnstone.services.turns.run_request import InBackground, Opening
from turnstone.settings.config import Settings
from turnstone.store.layout.keys import all_turns, session_key, session_partition, steps_of_turn
from turnstone.store.layout.oversize import OversizeStore
from turnstone.store.layout.ranges import all_records
from turnstone.store.sessions.session_records import segment_of, session_of
from turnstone.store.sessions.turn_records import order_of, turn_state_of
from turnstone.store.sessions.turns import TurnStore
from turnstone.store.usage.usage import UsageStore

if TYPE_CHECKING:
    from turnstone.bootstrap.services.registries import OwnToolgroups

LEASE_S = 30
AWAIT_S = 3_600
PATIENCE_S = 30.0  # the timeout of every wait, long enough for a busy machine
_SHORT = {"inference": "infer", "tool_execution": "tool", "shield_call": "shield", "memory_retrieval": "memory"}


class ProcessDied(Exception):
    """The process is dead: its next action does not happen."""


class FakeClock:
    """Stands still unless `at` is set, which lets time pass; `set_back` sets the time without any passing."""

    def __init__(self) -> None:
        self.at = datetime(2026, 1, 1, tzinfo=UTC)
        self._set_back_s = 0.0

    def now(self) -> datetime:
        return self.at

    def monotonic_s(self) -> float:
        return self.at.timestamp() + self._set_back_s

    def set_back(self, seconds: float) -> None:
        self.at -= timedelta(seconds=seconds)
        self._set_back_s += seconds

    def advance(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


class Gate:
    """A point at which a thread is held: `wait` until it has come, `open` to release it."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._opened = threading.Event()

    def pass_through(self) -> None:
        self.reached.set()
        assert self._opened.wait(PATIENCE_S), "nobody opened the gate"

    def wait(self) -> None:
        assert self.reached.wait(PATIENCE_S), "nobody came to the gate"

    def open(self) -> None:
        self._opened.set()


class Held(Gate):
    """A scripted reply that the model gives when the gate is opened; a tool's answer too."""

    def __init__(self, reply: Reply = "ok") -> None:
        super().__init__()
        self._reply = reply

    def __call__(self, _: object) -> Any:
        self.pass_through()
        return self._reply


@dataclass(frozen=True)
class StoreCall:
    """A call of the store, counted from 1. `keys` are the sort keys that are read, or where a range begins."""

    number: int
    verb: str
    keys: tuple[str, ...] = ()
    operations: tuple[Operation, ...] = ()


Matches = Callable[[StoreCall], bool]
Act = Callable[[], object]


def call_number(number: int) -> Matches:
    return lambda call: call.number == number


def nth(number: int, matches: Matches) -> Matches:
    """Match only the call that is the nth of its kind, counted from when this is made."""
    seen: list[StoreCall] = []

    def is_nth(call: StoreCall) -> bool:
        if matches(call):
            seen.append(call)
            return len(seen) == number
        return False

    return is_nth


def reads(prefix: str) -> Matches:
    """Match one read, alone or as a part of a gather."""
    return lambda call: call.verb in ("get", "range") and call.keys[0].startswith(prefix)


def puts_turn(status: TurnStatus, *, is_new: bool = False) -> Matches:
    def matches(call: StoreCall) -> bool:
        turns = (put for put in call.operations if isinstance(put, Put) and put.key.sk.startswith("turn:"))
        return any(put.attributes["status"] == status and (put.when == (Absent(),)) == is_new for put in turns)

    return matches


opens_turn = puts_turn(TurnStatus.IN_PROGRESS, is_new=True)
resumes_turn = puts_turn(TurnStatus.IN_PROGRESS)
takes_over = resumes_turn
pauses_turn = puts_turn(TurnStatus.AWAITING_INPUT)
completes_turn = puts_turn(TurnStatus.COMPLETED)


def saves_step(call: StoreCall) -> bool:
    return any(isinstance(operation, Put) and operation.key.sk.startswith("step:") for operation in call.operations)


def discards_steps(call: StoreCall) -> bool:
    return any(isinstance(operation, Delete) for operation in call.operations)


def renews(call: StoreCall) -> bool:
    updates = (operation for operation in call.operations if isinstance(operation, Update))
    return any("lease_until" in update.attributes for update in updates)


class CountingStore:
    """A RangeStore that logs its calls and, on request, does something before or after one of them.

    The reads of a gather are made one after the other, and something can happen after each: no store promises that
    they see the same moment. `is_backwards` makes them in the opposite order, which no store rules out either.
    """

    def __init__(self, inner: RangeStore) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self._rules: list[tuple[str, Matches, Act, list[int]]] = []
        self.calls: list[StoreCall] = []
        self.is_backwards = False
        self.is_dead = False

    def before(self, matches: Matches, act: Act, times: int = 1) -> None:
        self._rules.append(("before", matches, act, [times]))

    def after(self, matches: Matches, act: Act, times: int = 1) -> None:
        """Act when the effect has happened, and before the caller returns."""
        self._rules.append(("after", matches, act, [times]))

    def die(self) -> None:
        self.is_dead = True
        raise ProcessDied

    def get(self, key: Key) -> Record | None:
        return self._called("get", lambda: self._inner.get(key), keys=(key.sk,))

    def range(self, query: Range) -> RecordPage:
        return self._called("range", lambda: self._inner.range(query), keys=(query.start,))

    def gather(self, gets: Sequence[Get], ranges: Sequence[Range]) -> tuple[list[Record | None], list[RecordPage]]:
        keys = (*(get.key.sk for get in gets), *(query.start for query in ranges))
        return self._called("gather", lambda: self._gathered(gets, ranges), keys=keys)

    def write(self, operations: Sequence[Operation], nonce: str | None = None) -> None:
        self._called("write", lambda: self._inner.write(operations, nonce), operations=tuple(operations))

    def open_keys(self, shard: str, limit: int, after: Key | None = None) -> KeyPage:
        return self._inner.open_keys(shard, limit, after)

    def clear(self, pk: str, limit: int, sk: str | None = None) -> bool:
        cleared: bool = self._called("clear", lambda: self._inner.clear(pk, limit, sk), keys=(pk,))
        return cleared

    def _gathered(self, gets: Sequence[Get], ranges: Sequence[Range]) -> tuple[list[Record | None], list[RecordPage]]:
        answers: dict[Get | Range, Any] = {}
        reads_in_order: list[Get | Range] = [*gets, *ranges]
        for read in reversed(reads_in_order) if self.is_backwards else reads_in_order:
            if isinstance(read, Get):
                answers[read] = self._inner.get(read.key)
                self._act("after", StoreCall(0, "get", (read.key.sk,)))
            else:
                answers[read] = self._inner.range(read)
                self._act("after", StoreCall(0, "range", (read.start,)))
        return [answers[get] for get in gets], [answers[query] for query in ranges]

    def _called(self, verb: str, effect: Callable[[], Any], **details: Any) -> Any:
        if self.is_dead:
            raise ProcessDied
        with self._lock:
            call = StoreCall(len(self.calls) + 1, verb, **details)
            self.calls.append(call)
        self._act("before", call)
        answer = effect()
        self._act("after", call)
        return answer

    def _act(self, when: str, call: StoreCall) -> None:
        for moment, matches, act, left in self._rules:
            with self._lock:
                is_due = moment == when and left[0] > 0 and matches(call)
                left[0] -= is_due
            if is_due:
                act()


class ManualSupervisor:
    """Reconciles watched turns on call, as the local supervisor does by itself."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.watched: dict[TurnRef, datetime] = {}
        self.woken: list[str] = []
        self.on_watch: Act = lambda: None

    def watch(self, turn: TurnRef, lock: SessionLock) -> None:
        self.on_watch()
        self.schedule_check(turn, lock.check_at() or self._clock.now())

    def wake(self, token: str) -> None:
        self.woken.append(token)

    def schedule_check(self, turn: TurnRef, due_at: datetime) -> None:
        self.watched[turn] = min(due_at, self.watched.get(turn, due_at))

    def reconcile_due(self, reconcile_turn: Callable[[TurnRef], datetime | None]) -> None:
        for turn in [turn for turn, due_at in self.watched.items() if due_at <= self._clock.now()]:
            del self.watched[turn]
            if (again_at := reconcile_turn(turn)) is not None:
                self.schedule_check(turn, again_at)


class Server:
    """One process over some records: the actions of its clients, and the records they find."""

    def __init__(
        self,
        records: RangeStore,
        clock: Clock,
        script: Iterable[Scripted] = (),
        tools: Mapping[str, Mapping[str, ToolFunction]] | None = None,
    ) -> None:
        self.records = records
        self.clock = clock
        self.store = CountingStore(records)
        self.inference = ScriptedInference(script)
        self.tools = ScriptedTools(tools or {})
        self.jobs = RecordedJobs()
        self.receiver: WebhookSender = ScriptedReceiver()
        self.shields = ScriptedShields()
        self.bank_makers: dict[str, Callable[[], BankProvider] | None] = {}
        self.bank_defaults: dict[BankKind, str] = {}
        self._charges: dict[tuple[str, int], tuple[dict[str, Tokens], datetime]] = {}

    def load(
        self,
        supervisor: Supervisor,
        settings: Settings,
        *,
        is_on_lambda: bool = False,
        own_toolgroups: Callable[[Core], OwnToolgroups] = lambda _: (),
    ) -> None:
        ports = Ports(
            store=self.store,
            inference=self.inference,
            tools=self.tools,
            supervisor=supervisor,
            clock=self.clock,
            ids=RandomIds(),
            jobs=self.jobs,
            shields=self.shields,
            embeddings=HashedEmbeddings(),
            bank_providers=ConfiguredProviders(self.bank_makers, self.bank_defaults),
            webhook_sender=self.receiver,
        )
        self.core = Core(ports, settings, is_on_lambda=is_on_lambda, own_toolgroups=own_toolgroups).load()
        self.turns = self.core.turns
        self.reader = self.core.reader

    def agent(self, **config: Any) -> str:
        kept = {"model": "scripted", "instructions": "", "enable_session_persistence": True}
        full = AgentConfig(**{**kept, **config})
        return self.core.agents.create(LOCAL_CALLER, full, attempt())

    def session(self, agent_id: str | None = None, **config: Any) -> SessionRef:
        """Return a new session, of a new agent unless one is named."""
        agent_id = agent_id or self.agent(**config)
        session_id = self.core.sessions.create(LOCAL_CALLER, agent_id, "a session", attempt())
        return SessionRef(tenant=LOCAL_CALLER.tenant, agent_id=agent_id, session_id=session_id)

    def start(
        self,
        ref: SessionRef,
        message: str | Sequence[InputMessage] = "hello",
        by: Attempt | None = None,
        keeps_details: bool = False,
        **overrides: Any,
    ) -> TurnBroadcast:
        messages = (UserMessage(content=message),) if isinstance(message, str) else tuple(message)
        new = NewTurn(messages=messages, overrides=TurnOverrides(**overrides), keeps_details=keeps_details)
        return self.turns.start(LOCAL_CALLER, ref, new, by or attempt())

    def start_in_background(
        self, ref: SessionRef, message: str = "hello", by: Attempt | None = None, **opening: Any
    ) -> InBackground:
        new = NewTurn(messages=(UserMessage(content=message),))
        return self.turns.start_in_background(LOCAL_CALLER, ref, Opening(new, **opening), by or attempt())

    def whole_turn(
        self, ref: SessionRef, message: str | Sequence[InputMessage] = "hello", **more: Any
    ) -> tuple[TurnEvent, ...]:
        """Start a turn and return its events once its run is over, clean-up included."""
        return self.drain(self.start(ref, message, **more))

    def paused(self, ref: SessionRef, message: str = "look", **more: Any) -> TurnRef:
        """Start a turn that is scripted to pause; return which."""
        broadcast = self.start(ref, message, **more)
        assert outline(self.drain(broadcast)).endswith("awaiting")
        return broadcast.ref

    def resume(self, turn: TurnRef, *responses: ToolResponse, by: Attempt | None = None) -> TurnBroadcast:
        return self.turns.resume(LOCAL_CALLER, turn, responses, by or attempt())

    def drain(self, broadcast: TurnBroadcast) -> tuple[TurnEvent, ...]:
        """Return all events of the run once it is over, clean-up included; also those of a run whose process died."""
        events = drained_events(broadcast, lambda: self.store.is_dead and self._is_idle)
        self.settle()
        return events

    def settle(self) -> None:
        """Wait until no turn has a slot of the executor, nor cleans up after itself."""
        eventually(lambda: self._is_idle)

    @property
    def _is_idle(self) -> bool:
        executor = self.core.executor
        return executor.taken == 0 and not executor._running

    def header(self, ref: SessionRef) -> Session:
        record = self.records.get(session_key(ref))
        assert record is not None
        return session_of(record)

    def state(self, turn: TurnRef) -> TurnState:
        return next(state for state in self.states(turn) if state.order == turn.turn_id)

    def states(self, ref: SessionRef) -> list[TurnState]:
        """Return every turn of the session with its steps, oldest first."""
        return [
            turn_state_of(record, all_records(self.records, steps_of_turn(ref, order_of(record))))
            for record in all_records(self.records, all_turns(ref))
        ]

    def segments(self, ref: SessionRef) -> tuple[Segment, ...]:
        log = Range(session_partition(ref), start="ctx:0", end="ctx:9~")
        return tuple(segment_of(record) for record in all_records(self.records, log))

    def assert_whole(self, ref: SessionRef) -> None:
        """Assert the invariants between calls: one open turn at most, which the lock names, and a true log."""
        lock = self.header(ref).lock
        states = self.states(ref)
        still_open = {state.order: state.status for state in states if not state.status.is_terminal}
        expected = {
            LockState.IDLE: {},
            LockState.QUEUED: {lock.order: TurnStatus.IN_PROGRESS},
            LockState.RUNNING: {lock.order: TurnStatus.IN_PROGRESS},
            LockState.AWAITING: {lock.order: TurnStatus.AWAITING_INPUT},
        }
        assert expected[lock.state] == still_open
        indexed = [turn for turn in TurnStore(self.records).open_turns() if turn.session_id == ref.session_id]
        assert [ref.turn(order) for order in still_open] == indexed
        for state in states:
            step_ids = [step.step_id for step in state.turn.steps]
            assert len(set(step_ids)) == len(step_ids) == len(state.traces)
        ended = [state for state in states if state.status.is_terminal]
        summaries = {state.order: state.summary for state in states if state.summary is not None}
        log = self.segments(ref)
        if log and not log[-1].entries and log[-1].summary is None:
            log = log[:-1]  # its only turn was opened again
        assert (rebuilt(ended, summaries) if ended else ()) == log
        self._assert_counted_once(ref, states)

    def _assert_counted_once(self, ref: SessionRef, states: Sequence[TurnState]) -> None:
        """Assert that the session's usage of each day is the sum of its ended turns.

        A turn that was opened again does not record its earlier end, so each end is remembered once it is seen.
        """
        spent: SpentToday | None = None
        by_day: dict[date, dict[str, Tokens]] = {}
        for state in states:
            times = state.earlier_ends.times if state.earlier_ends else 0
            ends = [self._charges[state.turn_id, end] for end in range(times) if (state.turn_id, end) in self._charges]
            if state.earlier_ends and len(ends) < times:
                ends = [(state.earlier_ends.spent, state.last_moment)]
            if state.status.is_terminal:
                self._charges[state.turn_id, times] = state.uncharged, state.last_moment
                ends.append((state.uncharged, state.last_moment))
            for charged, at in ends:
                spent = spent_by(spent, charged, at)
                by_day |= {spent.day: spent.by_model} if spent else {}
        assert self.header(ref).spent == spent
        found = UsageStore(self.records).of_session(ref, list(by_day))
        assert {one.day: one.by_model for one in found} == by_day


class Harness(Server):
    def __init__(
        self,
        folder: Path,
        script: Iterable[Scripted] = (),
        tools: Mapping[str, Mapping[str, ToolFunction]] | None = None,
        clock: FakeClock | None = None,
        *,
        is_on_lambda: bool = False,
        own_toolgroups: Callable[[Core], OwnToolgroups] = lambda _: (),
        **settings: Any,
    ) -> None:
        """With `is_on_lambda` other processes run what this one queues."""
        self._folder = folder
        self._settings = {"lease_seconds": LEASE_S, "await_seconds": AWAIT_S, **settings}
        self._others: list[Harness] = []
        self._sqlite = SqliteRangeStore(folder / "turnstone.db")
        records = OversizeStore(self._sqlite, FileBlobStore(folder / "blobs"))
        super().__init__(records, clock or FakeClock(), script, tools)
        self.supervisor = ManualSupervisor(self.clock)
        self._own_toolgroups = own_toolgroups
        self.load(self.supervisor, Settings(**self._settings), is_on_lambda=is_on_lambda, own_toolgroups=own_toolgroups)

    def another(
        self,
        script: Iterable[Scripted] = (),
        tools: Mapping[str, Mapping[str, ToolFunction]] | None = None,
        **settings: Any,
    ) -> Harness:
        """Return a second process over the same database."""
        settings = {"own_toolgroups": self._own_toolgroups, **self._settings, **settings}
        other = Harness(self._folder, script, tools, self.clock, **settings)
        self._others.append(other)
        return other

    def close(self) -> None:
        for other in self._others:
            other.close()
        for broadcast in self.core.broadcasts.all():
            self.core.broadcasts.end(broadcast)  # else its turn would be polled for the rest of the tests
        self.core.leases.close()
        self._sqlite.close()

    def reconcile_turn(self, turn: TurnRef) -> datetime | None:
        return self.core.recovery.reconcile(turn).check_at

    def reconcile_due(self) -> None:
        self.supervisor.reconcile_due(self.reconcile_turn)

    def reconcile_open(self) -> None:
        """Reconcile every open turn, as a process does that starts."""
        for turn in self.core.turn_store.open_turns():
            self.supervisor.schedule_check(turn, self.clock.now())
        self.reconcile_due()

    def reconcile_after_leases(self) -> None:
        """Reconcile the turns that are due once every current lease has run out."""
        self.clock.advance(LEASE_S)
        self.reconcile_due()
        self.settle()

    def run_jobs(self) -> int:
        """Do the jobs that are due, each a part at a time, until none is; return how many parts they took."""
        parts = 0
        while due := self.core.cleaning.due():
            for job in due:
                self.core.cleaning.run_for(job, timedelta(0))
                parts += 1
            self.clock.advance(0.001)
        return parts

    def clean_up(self) -> None:
        """Run the jobs that are due, and those that check again later."""
        self.run_jobs()
        self.clock.advance(LATE_PAYLOADS.total_seconds())
        self.run_jobs()

    def blobs(self) -> list[Path]:
        """Return the payloads that are stored beside the database."""
        return sorted(path for path in (self._folder / "blobs").rglob("*") if path.is_file())

    def dump(self) -> list[tuple[Any, ...]]:
        """Return everything that is in the database."""
        with closing(sqlite3.connect(self._folder / "turnstone.db")) as connection:
            return connection.execute("SELECT pk, sk, rev, attributes, body FROM items ORDER BY pk, sk").fetchall()


def serving(folder: Path) -> Iterator[Callable[..., Harness]]:
    """Yield a factory of servers over the folder, and stop them afterwards: the body of a fixture."""
    servers: list[Harness] = []

    def serve(*arguments: Any, **settings: Any) -> Harness:
        servers.append(Harness(folder, *arguments, **settings))
        return servers[-1]

    try:
        yield serve
    finally:
        for server in servers:
            server.close()


def attempt(fingerprint: str | None = None, *, is_retry: bool = False, key: str | None = None) -> Attempt:
    """Return a request unlike any other, or the one with this fingerprint."""
    return Attempt(fingerprint=fingerprint or str(uuid4()), is_retry=is_retry, key=key)


def client_tool(name: str = "look") -> ToolDef:
    return ToolDef(name=name, description="Run by the client.")


def answer(call_id: str, content: str = "seen", tool_name: str = "look") -> ToolResponse:
    return ToolResponse(call_id=call_id, tool_name=tool_name, content=content)


def drained_events(broadcast: TurnBroadcast, is_enough: Callable[[], bool] = lambda: False) -> tuple[TurnEvent, ...]:
    """Return the events until the run is over, or until it is enough; fail rather than hang."""
    ready = threading.Event()
    listener = broadcast.subscribe(ready.set)
    deadline = time.monotonic() + PATIENCE_S
    events: list[TurnEvent] = []
    while True:
        is_last_poll = is_enough()
        news = listener.take()
        events += news.events
        if news.is_last or is_last_poll:
            broadcast.unsubscribe(listener)
            return tuple(events)
        assert time.monotonic() < deadline, f"the run does not end, so far: {outline(events)}"
        ready.wait(0.01)
        ready.clear()


def outline(events: Iterable[TurnEvent]) -> str:
    """Return the events as words: `start S:infer P C:infer complete` is a plain turn."""
    return " ".join(_word(event) for event in events)


def _word(event: TurnEvent) -> str:
    match event:
        case StepStarted():
            return f"S:{_SHORT[event.step_type]}"
        case StepProgressed():
            return "P"
        case StepCompleted():
            return f"C:{_SHORT[event.step_type]}"
        case TurnFailed():
            return f"failed:{event.failure.kind}"
        case _:
            return event.event_type.removeprefix("turn_").removesuffix("_input")


def finished_steps(events: Iterable[TurnEvent]) -> tuple[Step, ...]:
    """Return the steps whose completion was emitted."""
    return tuple(event.step_details for event in events if isinstance(event, StepCompleted))


def turn_in(events: Sequence[TurnEvent]) -> Turn:
    """Return the turn that the last event carries."""
    turn = getattr(events[-1], "turn", None)
    assert isinstance(turn, Turn), outline(events)
    return turn


def contents(messages: Iterable[Message]) -> list[str]:
    """Return the content of the messages, one text each."""
    return [str(message.content) for message in messages]


def together(*actions: Callable[[], Any]) -> list[Any]:
    """Return the results or errors of the actions, all released at once in threads of their own."""
    barrier = threading.Barrier(len(actions))

    def act(action: Callable[[], Any]) -> Any:
        barrier.wait(PATIENCE_S)
        try:
            return action()
        except TurnstoneError as error:
            return error

    with ThreadPoolExecutor(len(actions)) as pool:
        return list(pool.map(act, actions))


@contextmanager
def fails_to_start(patch: pytest.MonkeyPatch, name: str) -> Iterator[None]:
    """Within the block the machine has no more threads for those whose names begin with `name`."""
    start = threading.Thread.start

    def refused(thread: threading.Thread) -> None:
        if thread.name.startswith(name):
            raise RuntimeError("can't start new thread")
        start(thread)

    with patch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        yield


def eventually(holds: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Wait, a millisecond at a time, for an effect of another thread."""
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.001)
