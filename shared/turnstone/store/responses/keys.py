"""Keys of responses: the request of each in the partition of its session, and a list for each tenant."""

from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.ports.records import Key, Range
from turnstone.store.layout.keys import component, session_partition


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
