"""Lists of sessions as records of a store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

from turnstone.domain.access.access import owner_of
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.values.ids import milliseconds, uuid7
from turnstone.ports.records import MAX_OPERATIONS, Put
from turnstone.ports.storage import RangeStore
from turnstone.store.layout.keys import session_list_key
from turnstone.store.layout.listing import put_entry

AT = datetime(2026, 1, 1, tzinfo=UTC)


def fill(store: RangeStore, agent_id: str, count: int, at_once: int = MAX_OPERATIONS) -> list[str]:
    """Add that many sessions to the agent's list and return their ids."""
    random = Random(4)
    orders = [uuid7(milliseconds(AT + timedelta(seconds=number)), random.randbytes(10)) for number in range(count)]
    puts: list[Put] = [
        put_entry(
            session_list_key("local", agent_id, order),
            {"session_id": order, "session_name": "a session", "started_at": "2026-01-01T00:00:00Z"},
            owner_of(LOCAL_CALLER),
        )
        for order in orders
    ]
    for first in range(0, count, at_once):
        store.write(puts[first : first + at_once])
    return orders
