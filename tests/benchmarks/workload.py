"""Every operation of the API, done as its route does it, each under its name for measurements."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

from tests.benchmarks.histories import BEGAN_AT, CONFIG, answer, question
from tests.fakes.jobs import RecordedJobs
from tests.fakes.models.scripted import Scripted, ScriptedInference, call
from tests.fakes.receiver import ScriptedReceiver
from tests.fakes.shields import ScriptedShields
from tests.support.engine.harness import Held
from turnstone.adapters.machine.local_supervisor import LocalSupervisor
from turnstone.adapters.models.offline.offline_embeddings import OfflineEmbeddings
from turnstone.adapters.vectors.configured import ConfiguredProviders
from turnstone.bootstrap.core import Core
from turnstone.bootstrap.services.adapters import Ports
from turnstone.bootstrap.tools import local_tool_kinds
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.tools.tools import ToolResponse
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.events import TurnAwaitsInput, TurnCompleted
from turnstone.domain.turns.turns import NewTurn, Turn
from turnstone.domain.values.ids import milliseconds, order_key, uuid7
from turnstone.ports.records import Update
from turnstone.ports.storage import RangeStore
from turnstone.services.streams.broadcast import TurnBroadcast
from turnstone.settings.config import Settings
from turnstone.settings.local_settings import LocalSettings
from turnstone.store.layout.keys import turn_key
from turnstone.store.sessions.turn_records import TOKEN

Measure = Callable[[str], AbstractContextManager[object]]
LONGER_THAN_ANY_HISTORY = timedelta(days=1)
PATIENCE_S = 10.0
# The token that Step Functions leaves in a waiting turn; documented as 2,048 characters at most, and no more.
TASK_TOKEN = "t" * 1_000


@dataclass
class SteadyClock:
    """A clock with the same times in every run; each read takes a millisecond."""

    at: datetime

    def now(self) -> datetime:
        self.at += timedelta(milliseconds=1)
        return self.at

    def monotonic_s(self) -> float:
        return self.at.timestamp()


@dataclass(frozen=True)
class SeededIds:
    """Ids that are the same in every run."""

    clock: SteadyClock
    random: Random

    def new_id(self) -> str:
        return uuid7(milliseconds(self.clock.now()), self.random.randbytes(10))

    def order_key(self, at: datetime, previous: str | None) -> str:
        return order_key(at, previous, self.random.randbytes(10))


def ports_over(store: RangeStore, clock: SteadyClock, random: Random, *script: Scripted) -> Ports:
    """Return the ports of a process on AWS over this store, with a model that answers by script."""
    return Ports(
        store=store,
        inference=ScriptedInference(script),
        tools=local_tool_kinds(LocalSettings(), None, clock),
        supervisor=LocalSupervisor(clock),
        clock=clock,
        ids=SeededIds(clock, random),
        jobs=RecordedJobs(),
        shields=ScriptedShields(),
        embeddings=OfflineEmbeddings(),
        bank_providers=ConfiguredProviders({}, {}),
        webhook_sender=ScriptedReceiver(),
    )


class Workload:
    """The services over a store, composed as on AWS, and a model that answers by script.

    Questions and answers are as long as the budget of a plain turn allows. `measured` is entered around each operation,
    with its name; the preparation is done outside.
    """

    def __init__(self, store: RangeStore, budget_tokens: int, random: Random, measured: Measure) -> None:
        self._store = store
        self._budget_tokens = budget_tokens
        self._random = random
        self._measured = measured
        self._clock = SteadyClock(BEGAN_AT + LONGER_THAN_ANY_HISTORY)

    def agents_and_sessions(self, ref: SessionRef) -> None:
        """Create and read agents and sessions, this one with all its turns."""
        with self._served() as core:
            agents, sessions = core.agents, core.sessions
            with self._measured("create agent"):
                agents.create(LOCAL_CALLER, CONFIG, self._attempt())
            with self._measured("create agent, with a key"):
                agents.create(LOCAL_CALLER, CONFIG, self._attempt(has_key=True))
            with self._measured("get agent"):
                agents.wire(LOCAL_CALLER, ref.agent_id)
            with self._measured("create session"):
                sessions.create(LOCAL_CALLER, ref.agent_id, "counted", self._attempt())
            passing = CONFIG.model_copy(update={"enable_session_persistence": False})
            agent_id = agents.create(LOCAL_CALLER, passing, self._attempt())
            with self._measured("create session that passes"):
                session_id = sessions.create(LOCAL_CALLER, agent_id, "counted", self._attempt())
            doomed = SessionRef(tenant=ref.tenant, agent_id=agent_id, session_id=session_id)
            with self._measured("delete session"):
                core.deleting.delete_session(LOCAL_CALLER, doomed)
            with self._measured("delete agent"):
                core.deleting.delete_agent(LOCAL_CALLER, agent_id)
            with self._measured("get session"):
                _, turns = sessions.read(LOCAL_CALLER, ref, None)
                deque(turns, maxlen=0)

    def reads_of_a_turn(self, ref: SessionRef) -> None:
        """Read a turn with two stored steps while it runs and when it has ended, and one that waits."""
        held = Held(answer(0))
        with self._served(call("current_time", "call_1"), held, call("get_weather", "call_2"), answer(1)) as core:
            turns = core.turns
            running = turns.start(LOCAL_CALLER, ref, _new_turn(0), self._attempt())
            held.wait()
            with self._measured("get turn, running"):
                core.reader.read(LOCAL_CALLER, running.ref)
            held.open()
            turn = _completed(running)
            with self._measured("get turn"):
                core.reader.read(LOCAL_CALLER, running.ref)
            with self._measured("get step"):
                core.reader.read(LOCAL_CALLER, running.ref).step(turn.steps[-1].step_id)
            with self._measured("get session, one turn"):
                _, found = core.sessions.read(LOCAL_CALLER, ref, (turn.turn_id,))
                assert len(list(found)) == 1
            with self._measured("remove the steps of an ended turn"):
                core.turn_store.discard_steps(ref, turn.turn_id, len(turn.steps))
            waiting = _paused(turns.start(LOCAL_CALLER, ref, _new_turn(1), self._attempt()), ref)
            with self._measured("get turn, waiting"):
                core.reader.read(LOCAL_CALLER, waiting)
            _completed(turns.resume(LOCAL_CALLER, waiting, _answered("call_2"), self._attempt()))

    def plain_turns(self, ref: SessionRef, times: int, *, have_key: bool) -> None:
        """Start turns of one answer."""
        name = "plain turn, with a key" if have_key else "plain turn"
        with self._served(*map(answer, range(times))) as core:
            for number in range(times):
                with self._turn_measured(name, core):
                    started = core.turns.start(LOCAL_CALLER, ref, _new_turn(number), self._attempt(has_key=have_key))
                    _completed(started)

    def server_tool_turns(self, ref: SessionRef, times: int) -> None:
        """Start turns of one call of a server tool and an answer."""
        script = [reply for n in range(times) for reply in (call("current_time", f"call_{n}"), answer(n))]
        with self._served(*script) as core:
            for number in range(times):
                with self._turn_measured("server-tool turn", core):
                    turn = _completed(core.turns.start(LOCAL_CALLER, ref, _new_turn(number), self._attempt()))
                assert [step.step_type for step in turn.steps] == ["inference", "tool_execution", "inference"]

    def client_tool_turns(self, ref: SessionRef, times: int, *, have_key: bool) -> None:
        """Start turns of one call of a client's tool, and resume each."""
        suffix = ", with a key" if have_key else ""
        script = [reply for n in range(times) for reply in (call("get_weather", f"call_{n}"), answer(n))]
        with self._served(*script) as core:
            turns = core.turns
            for number in range(times):
                with self._turn_measured(f"client-tool turn: pause{suffix}", core):
                    waiting = _paused(
                        turns.start(LOCAL_CALLER, ref, _new_turn(number), self._attempt(has_key=have_key)), ref
                    )
                self._store.write([Update(turn_key(ref, waiting.turn_id), {TOKEN: TASK_TOKEN}, ())])
                with self._turn_measured(f"client-tool turn: resume{suffix}", core):
                    attempt = self._attempt(has_key=have_key)
                    _completed(turns.resume(LOCAL_CALLER, waiting, _answered(f"call_{number}"), attempt))

    @contextmanager
    def _turn_measured(self, name: str, core: Core) -> Iterator[None]:
        """Measure a turn with all the work of its run, also after its end was emitted."""
        with self._measured(name):
            yield
            assert core.executor.wait(PATIENCE_S), "the run does not end"

    @contextmanager
    def _served(self, *script: Scripted) -> Iterator[Core]:
        ports = ports_over(self._store, self._clock, self._random, *script)
        core = Core(ports, Settings(context_tokens=self._budget_tokens), is_on_lambda=True)
        try:
            yield core
        finally:
            core.executor.wait(PATIENCE_S)
            core.leases.close()

    def _attempt(self, *, has_key: bool = False) -> Attempt:
        digest = self._random.randbytes(16).hex()
        return Attempt(fingerprint=digest, key=digest if has_key else None)


def _new_turn(number: int) -> NewTurn:
    return NewTurn(messages=(UserMessage(content=question(number)),))


def _answered(call_id: str) -> tuple[ToolResponse, ...]:
    return (ToolResponse(call_id=call_id, tool_name="get_weather", content="4 degrees and rain"),)


def _completed(broadcast: TurnBroadcast) -> Turn:
    *_, last = broadcast.wait()
    assert isinstance(last, TurnCompleted), last
    return last.turn


def _paused(broadcast: TurnBroadcast, ref: SessionRef) -> TurnRef:
    *_, last = broadcast.wait()
    assert isinstance(last, TurnAwaitsInput), last
    return ref.turn(last.turn.turn_id)
