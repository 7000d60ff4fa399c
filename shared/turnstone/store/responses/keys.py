"""Keys of the records of conversations, in the partitions of their sessions."""

from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.ports.records import Key, Range
from turnstone.store.layout.keys import all_turns, component, session_partition, turn_key


def conversation_key(ref: SessionRef) -> Key:
    """Return the key of what the session has as a conversation."""
    return Key(session_partition(ref), "conversation:")


def items_key(ref: TurnRef) -> Key:
    """Return the key of the items of a turn that is no response."""
    return Key(session_partition(ref), f"items:{component(ref.turn_id)}")


def turns_from(ref: SessionRef, turn_id: str | None, limit: int, *, is_newest_first: bool) -> Range:
    """Return the read of the session's turns, beginning with that one."""
    turns = all_turns(ref)._replace(limit=limit, reverse=is_newest_first)
    if turn_id is None:
        return turns
    first = turn_key(ref, turn_id).sk
    return turns._replace(end=first) if is_newest_first else turns._replace(start=first)
