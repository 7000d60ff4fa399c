"""The entry of an ended turn in the context log, found again in a log of any length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnstone.domain.responses.removal import with_entry

if TYPE_CHECKING:
    from turnstone.domain.refs import SessionRef
    from turnstone.domain.sessions.context import Entry, Segment
    from turnstone.store.sessions.turns import TurnStore

NEAR = 2  # segments behind that of the opening: the turn's own entry, and a summary
NEWEST = 10**10 - 2  # no log has a segment of that number


def segments_with(
    turns: TurnStore, ref: SessionRef, entry: Entry, read_tokens: int, near: int | None = None
) -> tuple[Segment, ...]:
    """Return the segment of the log that has the entry's turn, with this entry; searched near that number first.

    Without a number the log is searched from its end.
    """
    last = NEWEST if near is None else near + NEAR
    while last >= 0:
        segments = turns.segments_up_to(ref, last, read_tokens)
        if found := with_entry(segments, entry):
            return found
        last = segments[0].number - 1 if segments else -1
    return ()
