"""Keys of responses and conversations: records in the partitions of their sessions, and a list for each tenant."""

from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.ports.records import Key, Range
from turnstone.store.layout.keys import all_turns, component, session_partition, turn_key


def request_key(ref: TurnRef) -> Key:
    """Return the key of the request of the turn's response."""
    return Key(session_partition(ref), f"request:{component(ref.turn_id)}")


def all_requests(ref: SessionRef) -> Range:
    return Range(session_partition(ref), start="request:", end="request:~")


def response_list(tenant: str) -> str:
    """Return the partition of a tenant's list of responses."""
    return f"{component(tenant)}|responses"


def response_list_key(tenant: str, order: str) -> Key:
    """Return the key of a response in the list, in the order of the turns."""
    return Key(response_list(tenant), component(order))


def attempts(tenant: str, fingerprint: str) -> str:
    """Return the partition of the turns that equal requests of that fingerprint began."""
    return f"{component(tenant)}|attempt:{component(fingerprint)}"


def attempt_key(ref: TurnRef, fingerprint: str) -> Key:
    """Return the key of the attempt that began the turn, in the order of the turns."""
    return Key(attempts(ref.tenant, fingerprint), component(ref.turn_id))


def newest_attempt(tenant: str, fingerprint: str) -> Range:
    return Range(attempts(tenant, fingerprint), limit=1, reverse=True)


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
