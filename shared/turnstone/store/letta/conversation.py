"""The turns of a session from the newest to the oldest, read as far as they are needed."""

from __future__ import annotations

from collections.abc import Iterator

from turnstone.domain.refs import SessionRef
from turnstone.domain.turns.turns import TurnState
from turnstone.ports.records import Range
from turnstone.ports.storage import RangeStore
from turnstone.store.layout.keys import all_turns, steps_of_turn, turn_key
from turnstone.store.layout.newer_records import NewerRecord
from turnstone.store.layout.ranges import all_records, pages
from turnstone.store.sessions.turn_records import order_of, turn_state_of

AT_ONCE = 20


def turns_before(store: RangeStore, ref: SessionRef, last: str | None) -> Iterator[TurnState]:
    """Yield the turns of the session, newest first, with their steps: from the turn `last` on, or all.

    A turn of a newer version is left out. Raises StoreUnavailable.
    """
    whole = all_turns(ref)
    end = whole.end if last is None else turn_key(ref, last).sk
    query = Range(whole.pk, start=whole.start, end=end, limit=AT_ONCE, reverse=True)
    for page in pages(store, query):
        for record in page.records:
            if isinstance(record, NewerRecord):
                continue
            state = turn_state_of(record)
            if state.status.is_terminal or state.is_lost:
                yield state
            else:
                yield turn_state_of(record, all_records(store, steps_of_turn(ref, order_of(record))))
