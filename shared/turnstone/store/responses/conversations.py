"""Conversations in the store: what a session has as one, and its turns with the items that were sent for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from turnstone.domain.errors import ContentLost, NotFound
from turnstone.domain.responses.conversations import ConversationMetadata, ConversationTurn
from turnstone.domain.responses.requests import SentRequest
from turnstone.ports.records import Absent, AttributeIs, Check, Get, Put, RevIs
from turnstone.store.agents.implicit import is_implicit, owner_of_answering
from turnstone.store.keys.responses import conversation_key, items_key, request_key, turns_from
from turnstone.store.layout.keys import agent_key, session_key, turn_key
from turnstone.store.layout.lost_records import LostRecord
from turnstone.store.layout.ranges import pages
from turnstone.store.sessions.session_records import session_of
from turnstone.store.sessions.turn_records import order_of, whole_state

if TYPE_CHECKING:
    from turnstone.domain.access.access import Ownership
    from turnstone.domain.refs import SessionRef, TurnRef
    from turnstone.domain.sessions.sessions import Session
    from turnstone.ports.records import Record
    from turnstone.ports.storage import RangeStore

TURNS_AT_ONCE = 20


class ConversationStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def visit(self, ref: SessionRef) -> tuple[Session, Ownership, Record | None]:
        """Return the session, its agent's owner, and the record of the conversation. Raises NotFound, ContentLost."""
        gets = [Get(session_key(ref)), Get(agent_key(ref.tenant, ref.agent_id)), Get(conversation_key(ref))]
        (header, agent, record), _ = self._store.gather(gets, [])
        if header is None or (agent is None and not is_implicit(ref.agent_id)):
            raise NotFound("session", ref.session_id)
        return session_of(header), owner_of_answering(agent, ref.agent_id), record

    def update(self, ref: SessionRef, session: Session, found: Record | None, changed: ConversationMetadata) -> None:
        """Store the changed conversation in place of the record as read. Raises Conflict after another change."""
        session_stays = Check(session_key(ref), (AttributeIs("status", session.lock.state.value),))
        self._store.write([session_stays, put_conversation(ref, changed, found)])

    def turns(self, ref: SessionRef, turn_id: str | None, *, is_newest_first: bool) -> Iterator[ConversationTurn]:
        """Yield the turns, beginning with that one, read lazily; without those whose content is lost."""
        query = turns_from(ref, turn_id, TURNS_AT_ONCE, is_newest_first=is_newest_first)
        for page in pages(self._store, query):
            records = [record for record in page.records if not isinstance(record, LostRecord)]
            yield from self._with_items(ref, records)

    def turn(self, ref: TurnRef) -> tuple[ConversationTurn, Record | None] | None:
        """Return the turn with the record of its items, None if it is missing. Raises ContentLost."""
        gets = [Get(turn_key(ref.session, ref.turn_id)), Get(request_key(ref)), Get(items_key(ref))]
        (record, request, items), _ = self._store.gather(gets, [])
        if record is None:
            return None
        state = whole_state(self._store, ref, record)
        state.check_content()
        return ConversationTurn(ref, state, _sent_in(request or items)), request or items

    def _with_items(self, ref: SessionRef, records: Sequence[Record]) -> Iterator[ConversationTurn]:
        refs = [ref.turn(order_of(record)) for record in records]
        gets = [Get(key(each)) for each in refs for key in (request_key, items_key)]
        found, _ = self._store.gather(gets, []) if gets else ((), ())
        for index, (record, turn) in enumerate(zip(records, refs, strict=True)):
            request, items = found[2 * index : 2 * index + 2]
            try:
                state = whole_state(self._store, ref, record)
                state.check_content()
                yield ConversationTurn(turn, state, _sent_in(request or items))
            except (ContentLost, NotFound):
                continue


def _sent_in(record: Record | None) -> SentRequest | None:
    return None if record is None else SentRequest.model_validate_json(record.body)


def conversation_in(record: Record | None) -> ConversationMetadata:
    """Return the conversation in the record; without one it has no metadata."""
    return ConversationMetadata() if record is None else ConversationMetadata.model_validate_json(record.body)


def put_conversation(ref: SessionRef, conversation: ConversationMetadata, found: Record | None = None) -> Put:
    """Return the write of the conversation in place of the record as read."""
    body = conversation.model_dump_json(exclude_defaults=True).encode()
    return Put(conversation_key(ref), body, when=(RevIs(found.rev) if found else Absent(),))


def put_items(turn: TurnRef, sent: SentRequest, found: Record | None = None) -> Put:
    """Return the write of the items of a turn, in place of the record as read: of a response, or of added items."""
    key = items_key(turn) if found is None else found.key
    body = sent.model_dump_json(exclude_defaults=True).encode()
    return Put(key, body, when=(RevIs(found.rev) if found else Absent(),))
