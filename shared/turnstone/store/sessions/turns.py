"""Turns in the store. Every transition of a turn is one atomic write over the session's header and the turn.

The header's revision guards taking the lock; its fence guards adding steps and renewing the lease.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

from turnstone.domain.access.access import Ownership
from turnstone.domain.agents.agents import Agent
from turnstone.domain.errors import Conflict, LeaseLost, NotFound
from turnstone.domain.messages.messages import Message, UserMessage
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.sessions.context import (
    Entry,
    Segment,
    ended_messages,
    living,
    newest_entries,
    newest_of_turns,
    segments_within,
    summary_message,
    summary_tokens,
    tokens_of,
)
from turnstone.domain.sessions.context_budget import NO_HISTORY, History
from turnstone.domain.sessions.old_alerts import without_old_alerts
from turnstone.domain.sessions.sessions import LockState, Session, SessionLock
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.lost_turns import LOST
from turnstone.domain.turns.turns import TurnState
from turnstone.domain.values.content import Restore
from turnstone.ports.records import (
    MAX_OPERATIONS,
    AttributeIs,
    Condition,
    Delete,
    Get,
    Key,
    Operation,
    Put,
    Record,
    RevIs,
    Update,
)
from turnstone.ports.storage import RangeStore
from turnstone.store.agents.implicit import answering_agent, is_implicit, owner_of_answering
from turnstone.store.layout.frames import stamp
from turnstone.store.layout.idempotency import get_remembered
from turnstone.store.layout.keys import (
    agent_key,
    directory_key,
    header_and_segments,
    open_shards,
    segments_before,
    session_key,
    session_list,
    steps_of_turn,
    turn_key,
    turn_ref_of,
)
from turnstone.store.layout.listing import ENTRIES_AT_ONCE, entries_of
from turnstone.store.layout.lost_records import LostRecord
from turnstone.store.layout.ranges import pages, records_within
from turnstone.store.registry.snapshot import RegistrySnapshot
from turnstone.store.sessions.long_texts import LONG_BYTES, with_long_texts_left
from turnstone.store.sessions.session_records import put_segment, put_session, segment_of, session_of
from turnstone.store.sessions.turn_records import put_step, put_turn, turn_state_of, whole_state
from turnstone.store.usage.usage import put_spent
from turnstone.store.webhooks.reporting import Reporting

log = logging.getLogger(__name__)


class NewSession(NamedTuple):
    """A session that is stored with its first turn, and the context log that it begins with."""

    session: Session
    log: tuple[Segment, ...] = ()


class SessionView(NamedTuple):
    """A session as read in one round trip: its header, its agent, its newest segments, oldest first.

    Attributes:
        turn_record: the record of the requested turn, None if it is missing.
        beside: the requested records of a dialect, in the order of the request.
    """

    session: Session
    agent: Agent
    agent_owner: Ownership
    segments: tuple[Segment, ...]
    remembered: Record | None = None
    turn_record: Record | None = None
    beside: tuple[Record | None, ...] = ()

    @property
    def state(self) -> TurnState | None:
        """Return the requested turn, without separately stored steps."""
        return turn_state_of(self.turn_record) if self.turn_record else None

    def check_turn(self, turn_id: str) -> None:
        """Raise NotFound if the requested turn is missing; only after a check of the caller's access to the session."""
        if self.turn_record is None:
            raise NotFound("turn", turn_id)

    @property
    def open_segment(self) -> Segment:
        """Return the segment that the next ended turn is appended to."""
        return self.segments[-1] if self.segments else Segment(number=0)

    def segments_with(self, *changed: Segment) -> tuple[Segment, ...]:
        """Return the segments after storing these."""
        numbers = {segment.number for segment in changed}
        return (*(segment for segment in self.segments if segment.number not in numbers), *changed)


class Change(NamedTuple):
    """A transition: the new states of the session and turns, guarded by the revisions as read.

    Attributes:
        has_spent: whether an ended turn used tokens, so that the session's usage of the day is written.
        beside: further writes, made with all others or not at all.
    """

    session: Session
    turns: tuple[TurnState, ...]
    segments: tuple[Segment, ...] = ()
    remembered: tuple[Put, ...] = ()
    has_spent: bool = False
    beside: tuple[Operation, ...] = ()


class Visited(NamedTuple):
    """The session of a requested turn and the owner of its agent, for a check of access before the turn is read.

    Attributes:
        turn: returns the turn with all its steps, or a `lost_turn`, and the function that restores the long texts
            in JSON derived from it, None without missing texts. Raises NotFound.
    """

    session: Session
    agent_owner: Ownership
    turn: Callable[[], tuple[TurnState, Restore | None]]


class TurnStore:
    def __init__(
        self,
        store: RangeStore,
        directory: RegistrySnapshot | None = None,
        reporting: Reporting | None = None,
        *,
        leaves_long_texts: bool = False,
    ) -> None:
        """Take the directory to read along with a turn, and the reports to webhooks.

        With `leaves_long_texts` a visitor holds no long text of an ended turn, which is read again for it.
        """
        self._store = store
        self._directory = directory
        self._reporting = reporting
        self._held_bytes = LONG_BYTES if leaves_long_texts else None

    def view(
        self,
        ref: SessionRef,
        budget_tokens: int,
        attempt: Attempt | None = None,
        turn_id: str | None = None,
        new: NewSession | None = None,
        beside: Sequence[Get] = (),
    ) -> SessionView:
        """Return the data to begin or resume a turn, from one round trip; with the `new` session if none is stored.

        Records of a dialect are read `beside` it. Raises NotFound for session or agent.
        """
        segments_read = header_and_segments(ref, segments_within(budget_tokens))
        remembered_key = get_remembered(ref, attempt) if attempt else ()
        turn_read = (Get(turn_key(ref, turn_id)),) if turn_id is not None else ()
        directory_read = (Get(directory_key(ref.tenant)),) if self._directory else ()
        gets = [Get(agent_key(ref.tenant, ref.agent_id)), *turn_read, *remembered_key, *beside, *directory_read]
        (agent_record, *found), (newest,) = self._store.gather(gets, [segments_read])
        if self._directory:
            self._directory.learn_readable(ref.tenant, found.pop())
        newest_first = records_within(self._store, segments_read, newest)
        has_session = bool(newest_first) and newest_first[0].key == session_key(ref)
        has_agent = agent_record is not None or is_implicit(ref.agent_id)
        if not has_agent or not (has_session or new):
            raise NotFound("agent", ref.agent_id) if new else NotFound("session", ref.session_id)
        stored = answering_agent(agent_record, ref.agent_id)
        turn_record = found.pop(0) if turn_id is not None else None
        return SessionView(
            session=session_of(newest_first[0]) if has_session or new is None else new.session,
            agent=stored.agent,
            agent_owner=stored.stamp,
            segments=_segments_in(newest_first[1:]) if has_session or new is None else new.log,
            remembered=found[0] if remembered_key else None,
            turn_record=turn_record,
            beside=tuple(found[len(remembered_key) :]),
        )

    def find_session(self, tenant: str, agent_id: str, turn_id: str) -> str | None:
        """Return the id of the agent's session that has the turn, None without one; reads grow with its sessions."""
        entries = entries_of(self._store, session_list(tenant, agent_id), None, None)
        while some := [str(entry.fields["session_id"]) for entry in islice(entries, ENTRIES_AT_ONCE)]:
            refs = [SessionRef(tenant=tenant, agent_id=agent_id, session_id=session_id) for session_id in some]
            found, _ = self._store.gather([Get(turn_key(ref, turn_id)) for ref in refs], [])
            for session_id, record in zip(some, found, strict=True):
                if record is not None:
                    return session_id
        return None

    def load(self, ref: TurnRef) -> tuple[Session, TurnState]:
        """Return the session and the turn with all its steps, or a `lost_turn`. Raises NotFound for either."""
        gets = [Get(session_key(ref)), Get(turn_key(ref, ref.turn_id))]
        (header, record), _ = self._store.gather(gets, [])
        if header is None:
            raise NotFound("session", ref.session_id)
        return session_of(header), self._whole(ref, record)

    def lock_of(self, ref: SessionRef) -> SessionLock | None:
        """Return the session's lock, None without a session."""
        record = self._store.get(session_key(ref))
        return None if record is None else session_of(record).lock

    def visit(self, ref: TurnRef) -> Visited:
        """Return the turn's session, its agent's owner, and the turn. Raises NotFound for session or agent."""
        turn, agent_record_key = turn_key(ref, ref.turn_id), agent_key(ref.tenant, ref.agent_id)
        gets = [Get(session_key(ref)), Get(turn, self._held_bytes), Get(agent_record_key)]
        (header, record, agent), _ = self._store.gather(gets, [])
        if header is None or (agent is None and not is_implicit(ref.agent_id)):
            raise NotFound("session", ref.session_id)
        owner = owner_of_answering(agent, ref.agent_id)
        return Visited(session_of(header), owner, partial(self._abridged, ref, record))

    def commit(self, ref: SessionRef, change: Change) -> Change:
        """Apply the transition, with its events for webhooks, and return it with its new revisions. Raises Conflict."""
        writes: list[Operation] = [put_session(ref, change.session)]
        writes += (put_turn(ref, state) for state in change.turns)
        writes += (put_segment(ref, segment) for segment in change.segments)
        if change.has_spent:
            writes.append(put_spent(ref, change.session))
        outgoing = self._reporting.outgoing(ref, change.turns) if self._reporting else None
        events = outgoing.writes if outgoing else ()
        self._store.write([*writes, *change.remembered, *change.beside, *events])
        if outgoing:
            outgoing.send()
        return change._replace(
            session=change.session.model_copy(update={"rev": change.session.rev + 1}),
            turns=tuple(state.model_copy(update={"rev": state.rev + 1, "token": None}) for state in change.turns),
        )

    def save_step(self, ref: SessionRef, session: Session, state: TurnState) -> Session:
        """Store the turn's newest step and return the session with its new revision.

        The revision changes with each step, so that only a process with all steps can end or take over a turn.

        Raises:
            LeaseLost: the session's lock has another fence, or changed concurrently.
        """
        unchanged = RevIs(session.rev)
        step_count = len(state.turn.steps)
        try:
            self._store.write(
                [
                    put_step(ref, state),
                    Update(session_key(ref), {"steps": step_count}, (unchanged, *_held(session.lock.fence))),
                ]
            )
        except Conflict as conflict:
            raise LeaseLost(state.turn_id) from conflict
        return session.model_copy(update={"rev": session.rev + 1})

    def renew(self, ref: TurnRef, fence: int, lease_until: datetime) -> None:
        """Extend the lease. Raises LeaseLost if the session's lock has another fence or is not held."""
        try:
            self._store.write([Update(session_key(ref), {"lease_until": stamp(lease_until)}, _held(fence))])
        except Conflict as conflict:
            raise LeaseLost(ref.turn_id) from conflict

    def discard_steps(self, ref: SessionRef, order: str, count: int) -> None:
        """Delete the separate records of that number of first steps, of an ended turn that holds them itself.

        Later ones belong to a run that reopened the turn.
        """
        if not count:
            return
        for page in pages(self._store, steps_of_turn(ref, order, count)):
            for first in range(0, len(page.records), MAX_OPERATIONS):
                self._store.write([Delete(record.key) for record in page.records[first : first + MAX_OPERATIONS]])

    def history(
        self, ref: SessionRef, segments: Sequence[Segment], budget_tokens: int, *, is_continued: bool = False
    ) -> History:
        """Return the newest messages of ended turns that fit the budget; whole turns where possible.

        If the next turn continues the newest one, it includes that one's last calls at any length.
        """
        if budget_tokens <= 0 and not is_continued:
            return NO_HISTORY
        summary, entries = living(segments)
        has_room = summary is not None and summary_tokens(summary) <= budget_tokens
        summed_up = (summary_message(summary),) if summary is not None and has_room else ()
        tokens = tokens_of(summed_up)
        room = budget_tokens - tokens
        chosen, left = newest_entries(entries, room)
        inline = without_old_alerts(segments, chosen, (entry.messages or () for entry in chosen))
        if left >= 0 and all(inline):  # the form of most histories
            return History((*summed_up, *chain.from_iterable(inline)), tokens + room - left)
        messages = without_old_alerts(segments, chosen, self.messages_of(ref, chosen))
        if left < 0:
            fitting = sum(entry.tokens for entry in chosen) + left
            messages = newest_of_turns(messages, fitting, is_continued=is_continued)
        for entry, of_turn in zip(chosen, messages, strict=True):
            if of_turn:
                tokens += entry.tokens if of_turn is entry.messages else tokens_of(of_turn)
        return History((*summed_up, *chain.from_iterable(messages)), tokens)

    def messages_of(self, ref: SessionRef, entries: Sequence[Entry]) -> list[tuple[Message, ...]]:
        """Return the messages of each turn in later context; those missing from the log are read."""
        held = [entry.messages for entry in entries if entry.messages is not None]
        if len(held) == len(entries):
            return held
        by_reference = [entry for entry in entries if entry.messages is None]
        records, _ = self._store.gather([Get(turn_key(ref, entry.order)) for entry in by_reference], [])
        messages_by_order = {entry.order: entry.messages or () for entry in entries}
        for entry, record in zip(by_reference, records, strict=True):
            if record is not None:
                state = turn_state_of(record)
                is_lost = (UserMessage(content=LOST),)
                messages_by_order[entry.order] = is_lost if state.is_lost else ended_messages(state)
        return [messages_by_order[entry.order] for entry in entries]

    def widened(self, ref: SessionRef, read: tuple[Segment, ...], budget_tokens: int) -> tuple[Segment, ...]:
        """Return these newest segments with the earlier ones that the budget may also hold, read now."""
        missing = segments_within(budget_tokens) - len(read)
        if missing <= 0 or not read or read[0].number == 0:
            return read
        query = segments_before(ref, read[0].number, missing)
        found = records_within(self._store, query, self._store.range(query))
        return (*_segments_in(found), *read)

    def segments_up_to(self, ref: SessionRef, number: int, budget_tokens: int) -> tuple[Segment, ...]:
        """Return the segments up to that one that the budget may hold, oldest first."""
        query = segments_before(ref, number + 1, segments_within(budget_tokens) + 1)
        return _segments_in(records_within(self._store, query, self._store.range(query)))

    def _abridged(self, ref: TurnRef, record: Record | None) -> tuple[TurnState, Restore | None]:
        restore: Restore | None = None
        if record is not None:
            record, restore = with_long_texts_left(record)
        return self._whole(ref, record), restore

    def _whole(self, ref: TurnRef, record: Record | None) -> TurnState:
        if record is None:
            raise NotFound("turn", ref.turn_id)
        return whole_state(self._store, ref, record)

    def open_turns(self) -> list[TurnRef]:
        """Return the open turns, from the open index."""
        return list(self.each_open())

    def each_open(self, first_shard: int = 0) -> Iterator[TurnRef]:
        """Yield the open turns, page by page, beginning with one of the shards of the open index."""
        shards = open_shards()
        first = first_shard % len(shards)
        for shard in (*shards[first:], *shards[:first]):
            page = self._store.open_keys(shard, limit=1_000)
            yield from _refs_of(page.keys)
            while page.after is not None:
                page = self._store.open_keys(shard, limit=1_000, after=page.after)
                yield from _refs_of(page.keys)


def _segments_in(newest_first: Sequence[Record]) -> tuple[Segment, ...]:
    """Return the segments, oldest first, without those whose content is lost: turns continue without them."""
    return tuple(segment_of(record) for record in reversed(newest_first) if not isinstance(record, LostRecord))


def _refs_of(keys: Iterable[Key]) -> Iterator[TurnRef]:
    """Yield the turns of the keys; an invalid key must not hide the others."""
    for key in keys:
        try:
            ref = turn_ref_of(key)
        except ValueError:
            log.warning("skipping %r in the open index: not a turn", key)
        else:
            yield ref


def _held(fence: int) -> tuple[Condition, ...]:
    is_mine = AttributeIs("fence", fence)
    is_running = AttributeIs("status", LockState.RUNNING.value)
    return is_mine, is_running
