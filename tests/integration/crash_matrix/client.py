"""A client that tries again as the official ones do, and records every answer it received."""

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
    """The ids of agents and sessions whose deletion was requested, and of those whose deletion was confirmed."""

    requested: set[str] = field(default_factory=set)
    confirmed: set[str] = field(default_factory=set)


class Client:
    """Acts as a client does, until its process dies, and records every answer it received.

    A request without an answer is repeated: at once while its process lives, otherwise to the next process.
    """

    def __init__(self, ref: SessionRef, gone: Gone) -> None:
        self.ref = ref
        self.gone = gone
        self.cancelled_turns: set[str] = set()
        self.published: list[Step] = []
        self.messages: list[str] = []
        self.creates = self.was_created = False
        self._unanswered: tuple[Begin, Attempt] | None = None
        self._unanswered_change: Callable[[Process], None] | None = None

    @property
    def may_be_gone(self) -> bool:
        return not self.gone.requested.isdisjoint((self.ref.session_id, self.ref.agent_id))

    @property
    def is_gone(self) -> bool:
        return not self.gone.confirmed.isdisjoint((self.ref.session_id, self.ref.agent_id))

    def create(self, server: Process) -> None:
        """Create another agent with a session, each under a key; retry on failure."""
        self.creates = True
        for _ in range(2):
            with suppress(StoreUnavailable):
                self._create_once(server)
                return

    def send(self, server: Process, text: str, *, leaves: bool = False, key: str | None = None) -> str:
        """Start a turn and receive its events, or leave at once; return their outline."""
        self.messages.append(text)
        overrides = OVERRIDES.get(word_of(text), {})
        return self._request(
            server, lambda at, by: at.start(self.ref, text, by=by, **overrides), attempt(key=key), leaves=leaves
        )

    def queue(self, server: Process, text: str, key: str | None = None) -> TurnRef:
        """Start a turn in the background; return it."""
        self.messages.append(text)
        first = attempt(key=key)
        self._unanswered = (lambda at, by: at.start(self.ref, text, by=by)), first
        try:
            turn = server.start_in_background(self.ref, text, by=first).ref
        except StoreUnavailable:
            turn = server.start_in_background(self.ref, text, by=again(first)).ref
        self._unanswered = None
        return turn

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
            return self._request(server, lambda at, by: at.resume(turn, *responses, by=by), attempt(key=key))
        except TurnNotAwaiting:
            if not lock.is_overdue(server.clock.now()):
                raise
            return ""

    def answer_in_text(self, server: Process, key: str | None = None) -> str:
        """Answer the call that this client read out of the text of the newest turn."""
        turn = self.ref.turn(server.states(self.ref)[-1].order)
        return self._request(server, lambda at, by: at.resume(turn, answer("read"), by=by), attempt(key=key))

    def cancel(self, server: Process, turn: TurnRef) -> None:
        by = attempt(key="cancel it")

        def cancel(at: Process) -> None:
            with suppress(TurnEnded):
                self.cancelled_turns.add(at.core.cancelling.cancel(LOCAL_CALLER, turn, by).turn_id)

        self._change(server, cancel)

    def delete_session(self, server: Process) -> None:
        self._delete(server, self.ref.session_id, lambda at: at.core.deleting.delete_session(LOCAL_CALLER, self.ref))

    def delete_agent(self, server: Process) -> None:
        agent_id = self.ref.agent_id
        self._delete(server, agent_id, lambda at: at.core.deleting.delete_agent(LOCAL_CALLER, agent_id))

    def finish(self, server: Process) -> None:
        """Answer every waiting call, and take another turn."""
        while self.answer(server):
            pass
        self.send(server, "plain at last")

    def repeat(self, server: Process) -> None:
        """Repeat the requests that got no answer."""
        if self.creates:
            self._create_once(server)
        if self._unanswered_change is not None:
            self._unanswered_change(server)
        if self._unanswered is None or self.is_gone:
            return
        begin, first = self._unanswered
        broadcast = begin(server, again(first))
        server.pass_time()
        self._receive(server, broadcast)

    def _delete(self, server: Process, identifier: str, delete: Callable[[Process], None]) -> None:
        self.gone.requested.add(identifier)

        def deleted(at: Process) -> None:
            with suppress(NotFound):
                delete(at)
            self.gone.confirmed.add(identifier)

        self._change(server, deleted)

    def _change(self, server: Process, change: Callable[[Process], None]) -> None:
        """Make the change; retry on failure."""
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
        self.was_created = True

    def _request(self, server: Process, begin: Begin, first: Attempt, *, leaves: bool = False) -> str:
        self._unanswered = begin, first
        try:
            broadcast = begin(server, first)
        except StoreUnavailable:
            broadcast = begin(server, again(first))
            server.pass_time()
        if leaves:
            server.settle()
            if server.is_dead:
                raise ProcessDied
            return ""
        return self._receive(server, broadcast)

    def _receive(self, server: Process, broadcast: TurnBroadcast) -> str:
        events = server.drain(broadcast)
        self.published += (step for step in finished_steps(events) if step not in self.published)
        received = outline(events)
        if server.is_dead:
            raise ProcessDied
        if received.endswith("failed:store_unavailable"):
            server.pass_time()
        self._unanswered = None
        return received


def again(attempt: Attempt) -> Attempt:
    """Return the repeated request: recognised by its key, if it has one, otherwise by its count of retries."""
    return attempt if attempt.key else attempt.model_copy(update={"is_retry": True})
