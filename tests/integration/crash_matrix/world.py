"""A database, processes over it, a client that tries again as the official ones do, and what must hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from tests.harness import FakeClock, ProcessDied, answer, attempt, client_tool, finished_steps, outline
from tests.integration.crash_matrix.databases import Database
from tests.integration.crash_matrix.faults import Fault, Faults
from tests.integration.crash_matrix.leftovers import blobs_named_by, leftovers
from tests.integration.crash_matrix.processes import KINDS, Process, word_of
from turnstone.domain.agents import AgentConfig
from turnstone.domain.attempts import Attempt
from turnstone.domain.caller import LOCAL_CALLER
from turnstone.domain.errors import StoreUnavailable, TurnNotAwaiting
from turnstone.domain.lists import Wanted
from turnstone.domain.sessions import SessionRef
from turnstone.domain.turns import Step, TurnStatus
from turnstone.records import Operation
from turnstone.services.attention import turn_of
from turnstone.services.broadcast import TurnBroadcast

CREATED = "created"
Begin = Callable[[Process, Attempt], TurnBroadcast]


class Client:
    """Does what a client does, as far as it gets, and remembers what it was told.

    A request that gets no answer is sent again: at once while its process lives, else to the next one.
    """

    def __init__(self, ref: SessionRef) -> None:
        self.ref = ref
        self.told: list[Step] = []
        self.said: list[str] = []
        self.creates = self.was_told_created = False
        self._unanswered: tuple[Begin, Attempt] | None = None

    def create(self, server: Process) -> None:
        """Create another agent with a session, each under a key, and try again where that fails."""
        self.creates = True
        for _ in range(2):
            with suppress(StoreUnavailable):
                self._create_once(server)
                return

    def say(self, server: Process, said: str, *, leaves: bool = False, key: str | None = None) -> str:
        """Start a turn and hear it, or leave at once; return how it was heard."""
        self.said.append(said)
        return self._ask(server, lambda at, by: at.start(self.ref, said, by=by), attempt(key=key), leaves=leaves)

    def answer(self, server: Process, content: str = "seen", key: str | None = None) -> str:
        """Answer the calls of the waiting turn, if there is one."""
        lock = server.header(self.ref).lock
        if lock.await_until is None:
            return ""
        turn = turn_of(self.ref, str(lock.order))
        responses = [answer(pending.call_id, content) for pending in server.state(turn).pending_calls]
        try:
            return self._ask(server, lambda at, by: at.resume(turn, *responses, by=by), attempt(key=key))
        except TurnNotAwaiting:
            if not lock.is_overdue(server.clock.now()):
                raise
            return ""

    def finish(self, server: Process) -> None:
        """Answer whatever waits, and take another turn."""
        while self.answer(server):
            pass
        self.say(server, "plain at last")

    def repeat(self, server: Process) -> None:
        """Send again what got no answer."""
        if self.creates:
            self._create_once(server)
        if self._unanswered is None:
            return
        begin, first = self._unanswered
        broadcast = begin(server, again(first))
        server.go_on()
        self._hear(server, broadcast)

    def _create_once(self, server: Process) -> None:
        config = AgentConfig(model="scripted", instructions="", name=CREATED)
        agent_id = server.core.agents.create(LOCAL_CALLER, config, attempt(CREATED, key=f"{CREATED} agent"))
        server.core.sessions.create(LOCAL_CALLER, agent_id, CREATED, attempt(CREATED, key=f"{CREATED} session"))
        self.was_told_created = True

    def _ask(self, server: Process, begin: Begin, first: Attempt, *, leaves: bool = False) -> str:
        self._unanswered = begin, first
        try:
            broadcast = begin(server, first)
        except StoreUnavailable:
            broadcast = begin(server, again(first))
            server.go_on()
        if leaves:
            server.settle()
            if server.is_dead:
                raise ProcessDied
            return ""
        return self._hear(server, broadcast)

    def _hear(self, server: Process, broadcast: TurnBroadcast) -> str:
        events = server.hear(broadcast)
        self.told += (step for step in finished_steps(events) if step not in self.told)
        heard = outline(events)
        if server.is_dead:
            raise ProcessDied
        if heard.endswith("failed:store_unavailable"):
            server.go_on()
        self._unanswered = None
        return heard


class World:
    def __init__(self, database: Database, fault: Fault | None = None) -> None:
        self.database = database
        self.clock = FakeClock()
        self.faults = Faults(fault)
        self.has_lambdas = False
        self._processes: list[Process] = []
        self._ever_named: set[str] = set()

    def process(self, *, is_on_lambda: bool = False) -> Process:
        self._processes.append(Process(self, is_on_lambda=is_on_lambda))
        self.has_lambdas = self.has_lambdas or is_on_lambda
        return self._processes[-1]

    def client(self) -> Client:
        """Return a client with a session of an agent that has tools of both kinds."""
        server = self.process()
        return Client(server.session(toolgroups=["dice"], client_tools=[client_tool()]))

    @property
    def reader(self) -> Process:
        """Return a process that only looks on, by ways that never fail."""
        return self._processes[0]

    @property
    def living(self) -> list[Process]:
        return [process for process in self._processes if not process.is_dead]

    def note_written(self, operations: Sequence[Operation]) -> None:
        self._ever_named |= blobs_named_by(operations)

    def close(self) -> None:
        for process in self._processes:
            process.core.leases.close()
        self.database.close()

    def assert_true(self, clients: Sequence[Client]) -> None:
        """Assert that everything told is there, once, and nothing that nobody can reach."""
        reader = self.reader
        where = str(self.faults.fault)
        for client in clients:
            self._assert_told(reader, client, where)
        left = leftovers(self.database.records(), self.database.blobs(), reader.records)
        fault = self.faults.fault
        assert left.orphans == [], where
        assert self.has_lambdas or self.faults.has_struck or left.steps == [], where
        may_be_nameless = self.faults.has_struck and fault is not None and fault.call.port in ("store", "blobs")
        nameless = len(left.blobs - self._ever_named)
        assert nameless <= (1 if may_be_nameless else 0), where
        self._assert_tools_asked_alike(where)

    def assert_over(self, clients: Sequence[Client]) -> None:
        """Assert that every turn has ended, the last one as it should."""
        self.assert_true(clients)
        for client in clients:
            assert self._created() in ([[1]] if client.was_told_created else [[], [0], [1]]), str(self.faults.fault)
            states = self.reader.states(client.ref)
            assert [state.order for state in states if not state.status.is_terminal] == [], str(self.faults.fault)
            assert states[-1].status is TurnStatus.COMPLETED, str(self.faults.fault)

    def _created(self) -> list[int]:
        """Return how many sessions each agent has that was created under a key."""
        agents, sessions = self.reader.core.agents, self.reader.core.sessions
        listing, _ = agents.list(LOCAL_CALLER, Wanted(name=CREATED))
        ids = [entry.fields["agent_id"] for entry in listing]
        return [len(list(sessions.list(LOCAL_CALLER, agent_id, Wanted()))) for agent_id in ids]

    def _assert_told(self, reader: Process, client: Client, where: str) -> None:
        reader.assert_whole(client.ref)
        states = reader.states(client.ref)
        stored = [step for state in states for step in state.turn.steps]
        assert [step for step in stored if step in client.told] == client.told, where
        texts = [str(state.turn.input_messages[0].content) for state in states]
        assert texts == [text for text in client.said if text in texts], where
        for state, text in zip(states, texts, strict=True):
            found, whole = [step.step_type for step in state.turn.steps], KINDS[word_of(text)]
            assert found == (whole if state.status is TurnStatus.COMPLETED else whole[: len(found)]), where
            called = [call.call_id for step in state.turn.steps for call in getattr(step, "tool_calls", ())]
            assert len(called) == len(set(called)), where

    def _assert_tools_asked_alike(self, where: str) -> None:
        runs = [run for process in self._processes for run in process.scripted_tools.invocations]
        keys: dict[Any, set[str]] = {}
        for run in runs:
            turn_id, _, _ = run.idempotency_key.partition(":")
            keys.setdefault((turn_id, run.call.call_id), set()).add(run.idempotency_key)
        assert [found for found in keys.values() if len(found) > 1] == [], where


def again(attempt: Attempt) -> Attempt:
    """Return the request sent once more: told by its key, if it has one, else by the count of its retries."""
    return attempt if attempt.key else attempt.model_copy(update={"is_retry": True})
