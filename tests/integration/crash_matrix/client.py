"""A client that tries again as the official ones do, and remembers what it was told."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from tests.integration.crash_matrix.processes import OVERRIDES, SHIELDS, Process, word_of
from tests.support.engine.harness import ProcessDied, answer, attempt, finished_steps, outline
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import NotFound, StoreUnavailable, TurnEnded, TurnNotAwaiting
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.turns import Step
from turnstone.services.streams.broadcast import TurnBroadcast

CREATED = "created"
Begin = Callable[[Process, Attempt], TurnBroadcast]


@dataclass
class Gone:
    """The ids of agents and sessions whose deletion was asked for, and of those that are told to be gone."""

    asked: set[str] = field(default_factory=set)
    told: set[str] = field(default_factory=set)


class Client:
    """Does what a client does, as far as it gets, and remembers what it was told.

    A request that gets no answer is sent again: at once while its process lives, else to the next one.
    """

    def __init__(self, ref: SessionRef, gone: Gone) -> None:
        self.ref = ref
        self.gone = gone
        self.told_cancelled: set[str] = set()
        self.told: list[Step] = []
        self.said: list[str] = []
        self.creates = self.was_told_created = False
        self._unanswered: tuple[Begin, Attempt] | None = None
        self._unanswered_change: Callable[[Process], None] | None = None

    @property
    def may_be_gone(self) -> bool:
        return not self.gone.asked.isdisjoint((self.ref.session_id, self.ref.agent_id))

    @property
    def is_told_gone(self) -> bool:
        return not self.gone.told.isdisjoint((self.ref.session_id, self.ref.agent_id))

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
        overrides = OVERRIDES.get(word_of(said), {})
        return self._ask(
            server, lambda at, by: at.start(self.ref, said, by=by, **overrides), attempt(key=key), leaves=leaves
        )

    def register_shields(self, server: Process) -> None:
        for shield in SHIELDS:
            server.core.shields.register(LOCAL_CALLER, shield, attempt())

    def answer(self, server: Process, content: str = "seen", key: str | None = None) -> str:
        """Answer the calls of the waiting turn, if there is one."""
        lock = server.header(self.ref).lock
        if lock.await_until is None:
            return ""
        turn = self.ref.turn(str(lock.order))
        responses = [answer(pending.call_id, content) for pending in server.state(turn).pending_calls]
        try:
            return self._ask(server, lambda at, by: at.resume(turn, *responses, by=by), attempt(key=key))
        except TurnNotAwaiting:
            if not lock.is_overdue(server.clock.now()):
                raise
            return ""

    def answer_in_text(self, server: Process, key: str | None = None) -> str:
        """Answer what this client read out of the text of the newest turn."""
        turn = self.ref.turn(server.states(self.ref)[-1].order)
        return self._ask(server, lambda at, by: at.resume(turn, answer("read"), by=by), attempt(key=key))

    def cancel(self, server: Process, turn: TurnRef) -> None:
        by = attempt(key="cancel it")

        def cancel(at: Process) -> None:
            with suppress(TurnEnded):
                self.told_cancelled.add(at.core.cancelling.cancel(LOCAL_CALLER, turn, by).turn_id)

        self._change(server, cancel)

    def delete_session(self, server: Process) -> None:
        self._delete(server, self.ref.session_id, lambda at: at.core.deleting.delete_session(LOCAL_CALLER, self.ref))

    def delete_agent(self, server: Process) -> None:
        agent_id = self.ref.agent_id
        self._delete(server, agent_id, lambda at: at.core.deleting.delete_agent(LOCAL_CALLER, agent_id))

    def finish(self, server: Process) -> None:
        """Answer whatever waits, and take another turn."""
        while self.answer(server):
            pass
        self.say(server, "plain at last")

    def repeat(self, server: Process) -> None:
        """Send again what got no answer."""
        if self.creates:
            self._create_once(server)
        if self._unanswered_change is not None:
            self._unanswered_change(server)
        if self._unanswered is None or self.is_told_gone:
            return
        begin, first = self._unanswered
        broadcast = begin(server, again(first))
        server.go_on()
        self._hear(server, broadcast)

    def _delete(self, server: Process, identifier: str, delete: Callable[[Process], None]) -> None:
        self.gone.asked.add(identifier)

        def deleted(at: Process) -> None:
            with suppress(NotFound):
                delete(at)
            self.gone.told.add(identifier)

        self._change(server, deleted)

    def _change(self, server: Process, change: Callable[[Process], None]) -> None:
        """Have the change made, and try again where that fails."""
        self._unanswered_change = change
        try:
            change(server)
        except StoreUnavailable:
            change(server)
        self._unanswered_change = None

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
        events = server.drain(broadcast)
        self.told += (step for step in finished_steps(events) if step not in self.told)
        heard = outline(events)
        if server.is_dead:
            raise ProcessDied
        if heard.endswith("failed:store_unavailable"):
            server.go_on()
        self._unanswered = None
        return heard


def again(attempt: Attempt) -> Attempt:
    """Return the request sent once more: told by its key, if it has one, else by the count of its retries."""
    return attempt if attempt.key else attempt.model_copy(update={"is_retry": True})
