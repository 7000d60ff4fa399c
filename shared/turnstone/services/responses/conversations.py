"""Conversations: create, read, change and delete them, and their items. Each is a session."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from turnstone.domain.access.access import owner_of
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import InvalidRequest, NotFound, TurnRunning
from turnstone.domain.refs import SessionRef
from turnstone.domain.responses.addresses import (
    CONVERSATION_KIND,
    ITEM_KIND,
    conversation_id,
    item_address,
    session_of,
)
from turnstone.domain.responses.conversations import (
    AddedItems,
    ConversationMetadata,
    ConversationTurn,
    NewConversation,
    StoredConversation,
)
from turnstone.domain.responses.removal import Removal, output_of, without
from turnstone.domain.responses.requests import SentRequest
from turnstone.domain.sessions.call_pairs import open_calls
from turnstone.domain.sessions.context import entry_of
from turnstone.domain.sessions.sessions import LockState, Session
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.events import Numbered
from turnstone.domain.turns.turns import NewTurn, Turn, TurnState, TurnStatus
from turnstone.ports.records import Record
from turnstone.ports.system import Clock, IdGenerator
from turnstone.services.access.access import AccessRules, check_session
from turnstone.services.cleanup.deleting import Deleting
from turnstone.services.responses.answering import named_as, refuse_lonely, session_id_of
from turnstone.services.streams.replay import numbered
from turnstone.store.agents.agents import AgentStore
from turnstone.store.agents.implicit import IMPLICIT
from turnstone.store.layout.contention import TRIES_OF_TURNS, retried
from turnstone.store.layout.idempotency import answer_in, put_remembered
from turnstone.store.responses.conversations import (
    ConversationStore,
    conversation_in,
    put_conversation,
    put_items,
)
from turnstone.store.sessions.log_entries import segments_with
from turnstone.store.sessions.sessions import creation
from turnstone.store.sessions.turns import Change, NewSession, SessionView, TurnStore

SESSION_NAME = "conversation"
CHANGES = "the conversation changes too fast, try again"
SHIELDED = (
    "items: the agent's shields judge the messages of a run; send these items as the input of a response in this "
    "conversation"
)


class ConversationDeps(NamedTuple):
    """Dependencies of conversations.

    Attributes:
        ephemeral_for_s: the lifetime after its last use of a session of an agent that keeps none.
        read_tokens: the tokens of the history in which an answer finds its call.
        deleting: returns the service that deletes sessions, which only deletion needs.
    """

    store: ConversationStore
    turns: TurnStore
    agents: AgentStore
    rules: AccessRules
    clock: Clock
    ids: IdGenerator
    ephemeral_for_s: float
    read_tokens: int
    deleting: Callable[[], Deleting]


class Conversations:
    def __init__(self, deps: ConversationDeps) -> None:
        self._deps = deps
        self._store = deps.store

    def create(self, caller: Caller, new: NewConversation, attempt: Attempt) -> StoredConversation:
        """Return the new conversation, with its first items, or the one that the named session is.

        Raises:
            NotFound: the agent, or the session.
            InvalidRequest: an answer among the items has no call, or shields of the agent would have to judge them.
            IdempotencyMismatch: its key was used for another body.
        """
        if new.agent_id is not None and new.session_id is not None:
            return self._of_session(caller, new.agent_id, new.session_id)
        session = self._new_session(caller, new, attempt)
        ref = SessionRef(tenant=caller.tenant, agent_id=session.agent_id, session_id=session.session_id)
        conversation = ConversationMetadata(metadata=dict(new.metadata))

        def act() -> StoredConversation:
            view = self._deps.turns.view(ref, 0, attempt, new=NewSession(session))
            now = self._deps.clock.now()
            if answer_in(view.remembered, attempt, now) is not None or view.session.rev:
                return self.read(caller, conversation_id(ref))
            imported = self._imported(ref, view, new.items, attempt) if new.items.messages else Change(session, ())
            created = imported.session.used(now)
            beside = (*creation(ref, created, now), put_conversation(ref, conversation), *imported.beside)
            remembered = put_remembered(ref, attempt, {"conversation": session.session_id}, now, view.remembered)
            change = imported._replace(session=created, beside=beside, remembered=remembered)
            return StoredConversation(ref, self._deps.turns.commit(ref, change).session, conversation)

        return retried(act, CHANGES)

    def read(self, caller: Caller, text: str) -> StoredConversation:
        """Return the conversation of that id. Raises NotFound, ContentLost."""
        ref, session, record = self._visited(caller, text)
        return StoredConversation(ref, session, conversation_in(record))

    def update(self, caller: Caller, text: str, metadata: Mapping[str, str]) -> StoredConversation:
        """Give the conversation other metadata, which replaces the old. Raises NotFound, ContentLost."""
        changed = ConversationMetadata(metadata=dict(metadata))

        def act() -> StoredConversation:
            ref, session, record = self._visited(caller, text)
            self._store.update(ref, session, record, changed)
            return StoredConversation(ref, session, changed)

        return retried(act, CHANGES)

    def delete(self, caller: Caller, text: str) -> None:
        """Delete the conversation with its items and responses. Raises NotFound, Forbidden."""
        ref = session_of(caller.tenant, text)
        with named_as(CONVERSATION_KIND, text):
            self._deps.deleting().delete_session(caller, ref)

    def turns(
        self, caller: Caller, text: str, turn_id: str | None, *, is_newest_first: bool
    ) -> Iterator[ConversationTurn]:
        """Return its turns from that one on, read from the store on iteration. Raises NotFound, ContentLost."""
        ref, _, _ = self._visited(caller, text)
        return self._store.turns(ref, turn_id, is_newest_first=is_newest_first)

    def turn_of(self, caller: Caller, text: str, item: str) -> ConversationTurn:
        """Return the turn that the item's id names. Raises NotFound, ContentLost."""
        ref, _, _ = self._visited(caller, text)
        return self._turn_of(ref, item)[0]

    def add(self, caller: Caller, text: str, items: AddedItems, attempt: Attempt) -> ConversationTurn:
        """Add the items as a turn that no run made; return it.

        Raises:
            NotFound, ContentLost: the conversation.
            InvalidRequest: see `create`.
            TurnRunning: a turn of the session runs, or waits for its client.
        """
        ref = session_of(caller.tenant, text)
        read_tokens = self._deps.read_tokens if items.given else 0

        def act() -> ConversationTurn:
            with named_as(CONVERSATION_KIND, text):
                view = self._deps.turns.view(ref, read_tokens, attempt)
                now = self._deps.clock.now()
                check_session(self._deps.rules, caller, view.session, view.agent_owner, now)
            if (earlier := self._earlier(ref, view, attempt, now)) is not None:
                return earlier
            refuse_busy(view.session)
            imported = self._imported(ref, view, items, attempt)
            turn_id = imported.turns[0].turn_id
            remembered = put_remembered(ref, attempt, {"turn_id": turn_id}, now, view.remembered)
            change = imported._replace(session=imported.session.used(now), remembered=remembered)
            (state,) = self._deps.turns.commit(ref, change).turns
            return ConversationTurn(ref.turn(turn_id), state, SentRequest(input=items.input))

        return retried(act, CHANGES, TRIES_OF_TURNS)

    def delete_item(
        self, caller: Caller, text: str, item: str, removal_in: Callable[[ConversationTurn], Removal]
    ) -> StoredConversation:
        """Delete the item: its turn and the context of later ones are stored without it. Return the conversation.

        Args:
            removal_in: returns the removal of the item from its turn. Raises NotFound, InvalidRequest.

        Raises:
            NotFound, ContentLost: conversation or item.
            Forbidden: only another caller may.
            InvalidRequest: the item can't be deleted alone.
            TurnRunning: a turn of the session runs, or waits for its client.
        """
        ref = session_of(caller.tenant, text)

        def act() -> StoredConversation:
            _, session, record = self._visited(caller, text)
            self._deps.rules.check_deletion(caller, session.stamp, CONVERSATION_KIND, text)
            refuse_busy(session)
            turn, found = self._turn_of(ref, item)
            self._deps.turns.commit(ref, self._without(ref, session, turn, found, removal_in(turn)))
            return StoredConversation(ref, session, conversation_in(record))

        return retried(act, CHANGES, TRIES_OF_TURNS)

    @staticmethod
    def events_of(state: TurnState) -> tuple[Numbered, ...]:
        """Return the events of the turn so far, with details, for the dialect that makes items of them."""
        return numbered(state, is_detailed=True)

    def _turn_of(self, ref: SessionRef, item: str) -> tuple[ConversationTurn, Record | None]:
        address = item_address(item)
        found = None if address is None else self._store.turn(ref.turn(address.turn_id))
        if found is None:
            raise NotFound(ITEM_KIND, item)
        return found

    def _visited(self, caller: Caller, text: str) -> tuple[SessionRef, Session, Record | None]:
        ref = session_of(caller.tenant, text)
        with named_as(CONVERSATION_KIND, text):
            session, agent_owner, record = self._store.visit(ref)
            check_session(self._deps.rules, caller, session, agent_owner, self._deps.clock.now())
        return ref, session, record

    def _of_session(self, caller: Caller, agent_id: str, session_id: str) -> StoredConversation:
        try:
            text = conversation_id(SessionRef(tenant=caller.tenant, agent_id=agent_id, session_id=session_id))
            return self.read(caller, text)
        except (NotFound, ValueError):
            raise NotFound("session", session_id) from None

    def _new_session(self, caller: Caller, new: NewConversation, attempt: Attempt) -> Session:
        is_kept = True
        if new.agent_id is not None:
            is_kept, stamp = self._deps.agents.keeps_sessions(caller.tenant, new.agent_id)
            self._deps.rules.check_sight(caller, stamp, "agent", new.agent_id)
        now = self._deps.clock.now()
        return Session(
            agent_id=new.agent_id or IMPLICIT,
            session_id=session_id_of(caller.tenant, attempt, self._deps.ids),
            session_name=SESSION_NAME,
            started_at=now,
            order=self._deps.ids.order_key(now, None),
            stamp=owner_of(caller),
            lives_for_s=None if is_kept else self._deps.ephemeral_for_s,
        )

    def _earlier(self, ref: SessionRef, view: SessionView, attempt: Attempt, now: datetime) -> ConversationTurn | None:
        """Return the turn that an earlier sending of this very request added."""
        answer = answer_in(view.remembered, attempt, now)
        turn_id = answer["turn_id"] if answer else None
        if turn_id is None and attempt.is_retry and view.session.last_request == attempt.fingerprint:
            turn_id = view.session.last_order
        found = None if turn_id is None else self._store.turn(ref.turn(turn_id))
        return None if found is None else found[0]

    def _imported(self, ref: SessionRef, view: SessionView, items: AddedItems, attempt: Attempt) -> Change:
        """Return the change that adds the items as an ended turn. Raises InvalidRequest."""
        config, now = view.agent.agent_config, self._deps.clock.now()
        if config.input_shields:
            raise InvalidRequest(SHIELDED, ("items",))
        if items.given:
            history = self._deps.turns.history(ref, view.segments, self._deps.read_tokens)
            refuse_lonely(items.given, open_calls(history.messages), "items")
        order = self._deps.ids.order_key(now, view.session.last_order)
        turn = Turn(
            turn_id=order,
            session_id=ref.session_id,
            input_messages=items.messages,
            output_message=output_of(items.messages),
            started_at=now,
            completed_at=now,
        )
        new = NewTurn(messages=items.messages, origin="responses")
        state = new.opened(turn, config).model_copy(update={"status": TurnStatus.COMPLETED})
        session = view.session.model_copy(update={"last_order": order, "last_request": attempt.fingerprint})
        sent = SentRequest(input=items.input, segment=view.open_segment.number)
        beside = (put_items(ref.turn(order), sent),)
        return Change(session, (state,), (view.open_segment.appended(entry_of(state)),), beside=beside)

    def _without(
        self, ref: SessionRef, session: Session, turn: ConversationTurn, record: Record | None, removal: Removal
    ) -> Change:
        """Return the change that stores the turn and its entry in the context log without the item."""
        sent = turn.sent or SentRequest()
        removed = sent.removed if removal.position is None else (*sent.removed, removal.position)
        changed = sent.model_copy(update={"input": removal.input, "removed": removed})
        state = without(turn.state, removal.removed)
        near = None if turn.sent is None else sent.segment
        segments = segments_with(self._deps.turns, ref, entry_of(state), self._deps.read_tokens, near)
        return Change(session, (state,), segments, beside=(put_items(turn.ref, changed, record),))


def refuse_busy(session: Session) -> None:
    """Raise TurnRunning unless the session is idle."""
    if session.lock.state is not LockState.IDLE:
        raise TurnRunning(str(session.lock.order))
