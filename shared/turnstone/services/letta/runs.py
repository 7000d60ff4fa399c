"""Runs of Letta's API: begin a turn in the background, and read, list and delete its run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from turnstone.domain.access.access import may_delete, owner_of
from turnstone.domain.errors import ContentLost, NotFound, TurnEnded
from turnstone.domain.letta.runs import RUN_KIND, LettaRun, ListedRun, turn_id_in
from turnstone.domain.sessions.sessions import LockState
from turnstone.ports.records import Put
from turnstone.services.access.access import AccessRules, check_session
from turnstone.services.turns.supervision import watch_if_due
from turnstone.store.letta.runs import RunStore, put_run, run_in

if TYPE_CHECKING:
    from turnstone.domain.access.caller import Caller
    from turnstone.domain.messages.messages import Message
    from turnstone.domain.refs import SessionRef, TurnRef
    from turnstone.domain.sessions.sessions import Session
    from turnstone.domain.tools.tool_runs import ToolOffer
    from turnstone.domain.turns.attempts import Attempt
    from turnstone.ports.supervision import Supervisor
    from turnstone.ports.system import Clock
    from turnstone.services.letta.messages import LettaMessages
    from turnstone.services.turns.cancelling import Cancelling
    from turnstone.services.turns.turns import Turns
    from turnstone.store.layout.listing import ListEntry
    from turnstone.store.sessions.sessions import SessionStore
    from turnstone.store.sessions.turns import TurnStore

MOST_SCANNED = 1_000


@dataclass(frozen=True, slots=True)
class LettaRunDeps:
    """Dependencies of Letta's runs.

    Attributes:
        messages: returns the service that opens turns of messages, which only a new run needs.
        turns: returns the service that begins turns, likewise.
        cancelling: returns the service that cancels turns, which only the deletion of an open run needs.
        kept_for_s: how long a run stays in the list.
    """

    messages: Callable[[], LettaMessages]
    turns: Callable[[], Turns]
    cancelling: Callable[[], Cancelling]
    store: RunStore
    turn_store: TurnStore
    sessions: SessionStore
    rules: AccessRules
    supervisor: Supervisor
    clock: Clock
    kept_for_s: float


class LettaRuns:
    def __init__(self, deps: LettaRunDeps) -> None:
        self._deps = deps

    def start(
        self, caller: Caller, agent_id: str, messages: Sequence[Message], config: Mapping[str, Any], attempt: Attempt
    ) -> LettaRun:
        """Begin the turn of the messages without its request. For the errors see `Turns.start_in_background`."""
        ref, opening = self._deps.messages().opening(caller, agent_id, messages)
        run = ListedRun(
            agent_id=agent_id,
            session_id=ref.session_id,
            config=dict(config),
            ends_at=self._deps.clock.now() + timedelta(seconds=self._deps.kept_for_s),
            stamp=owner_of(caller),
        )

        def beside(turn: TurnRef, _: ToolOffer) -> tuple[Put, ...]:
            return (put_run(turn, run),)

        begun = self._deps.turns().start_in_background(caller, ref, opening._replace(beside_turn=beside), attempt)
        is_queued = not begun.state.status.is_terminal
        return LettaRun(begun.ref, begun.state, run.stamp.owner, run.config, is_queued)

    def read(self, caller: Caller, text: str) -> LettaRun:
        """Return the run of that id. Raises NotFound, ContentLost."""
        listed, turn_id = self._address(caller, text)
        with _named(text):
            return self._visited(caller, listed, turn_id)

    def list(self, caller: Caller, limit: int) -> Iterator[LettaRun]:
        """Yield the newest runs that the caller may see, newest first."""
        return islice(self._existing(caller, self._entries(caller)), limit)

    def active(self, caller: Caller, limit: int) -> Iterator[LettaRun]:
        """Yield those of the newest runs that have not ended, newest first. Reads one record for each agent."""
        return islice(self._existing(caller, self._open_entries(caller)), limit)

    def delete(self, caller: Caller, text: str, attempt: Attempt) -> LettaRun:
        """Return the run as it ended, removed from the list; one that has not ended is cancelled.

        Its messages stay. A caller that may cancel its turn, and not delete it, cancels it, and it stays in the list.
        Raises NotFound, Forbidden, ContentLost.
        """
        listed, turn_id = self._address(caller, text)
        with _named(text):
            if may_delete(caller, listed.stamp):
                return self._removed(caller, listed, turn_id, attempt)
            try:
                self._deps.cancelling().cancel(caller, listed.session_in(caller.tenant).turn(turn_id), attempt)
            except TurnEnded:
                self._deps.rules.check_deletion(caller, listed.stamp, RUN_KIND, text)
            return self._visited(caller, listed, turn_id)

    def _removed(self, caller: Caller, listed: ListedRun, turn_id: str, attempt: Attempt) -> LettaRun:
        """Remove the run from the list and return it as it ended, without its content if the caller may not see it."""
        run = self._visited(caller, listed, turn_id, needs_sight=False)
        if not run.state.status.is_terminal:
            with suppress(TurnEnded):
                self._deps.cancelling().cancel_for_operator(run.ref, attempt)
            run = self._visited(caller, listed, turn_id, needs_sight=False)
        self._deps.store.delete(run.ref)
        return run

    def _address(self, caller: Caller, text: str) -> tuple[ListedRun, str]:
        turn_id = turn_id_in(text)
        listed = self._deps.store.find(caller.tenant, turn_id, self._deps.clock.now())
        if listed is None:
            raise NotFound(RUN_KIND, text)
        return listed, turn_id

    def _entries(self, caller: Caller) -> Iterator[ListEntry]:
        """Yield the newest entries that the caller may see, as far as they have not left the list."""
        now = self._deps.clock.now()
        for entry in islice(self._deps.store.newest(caller.tenant, MOST_SCANNED), MOST_SCANNED):
            if self._deps.rules.may_see(caller, entry.stamp) and now < run_in(entry).ends_at:
                yield entry

    def _open_entries(self, caller: Caller) -> Iterator[ListEntry]:
        """Yield the entries whose turns hold their sessions: a session has one open turn at most."""
        open_turns: dict[SessionRef, str | None] = {}
        for entry in self._entries(caller):
            ref = run_in(entry).session_in(caller.tenant)
            if ref not in open_turns:
                open_turns[ref] = self._open_turn(ref)
            if open_turns[ref] == entry.order:
                yield entry

    def _open_turn(self, ref: SessionRef) -> str | None:
        try:
            session, _ = self._deps.sessions.visit(ref)
        except (NotFound, ContentLost):
            return None
        return None if session.lock.state is LockState.IDLE else session.lock.order

    def _existing(self, caller: Caller, entries: Iterator[ListEntry]) -> Iterator[LettaRun]:
        """Yield the runs of the entries; those of deleted agents, and those whose content is lost, are left out."""
        for entry in entries:
            try:
                yield self._visited(caller, run_in(entry), entry.order)
            except (NotFound, ContentLost):
                continue

    def _visited(self, caller: Caller, listed: ListedRun, turn_id: str, *, needs_sight: bool = True) -> LettaRun:
        ref = listed.session_in(caller.tenant).turn(turn_id)
        visited = self._deps.turn_store.visit(ref)
        now, owners = self._deps.clock.now(), (visited.agent_owner, visited.session.stamp)
        is_seen = all(self._deps.rules.may_see(caller, stamp) for stamp in owners)
        if is_seen or needs_sight or visited.session.is_over(now):
            check_session(self._deps.rules, caller, visited.session, visited.agent_owner, now)
        state, _ = visited.turn()
        state.check_content()
        watch_if_due(self._deps.supervisor, self._deps.clock, ref, visited.session)
        is_queued = _is_queued(visited.session, state.order)
        return LettaRun(ref, state, listed.stamp.owner, listed.config, is_queued, is_seen)


@contextmanager
def _named(text: str) -> Iterator[None]:
    """Raise NotFound of the run instead of its session or turn."""
    try:
        yield
    except NotFound as missing:
        raise NotFound(RUN_KIND, text) from missing


def _is_queued(session: Session, order: str) -> bool:
    return session.lock.state is LockState.QUEUED and session.lock.order == order
