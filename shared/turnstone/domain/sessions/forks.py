"""Forks: a new session that begins with a copy of another one's context log, up to one of its turns.

A copy keeps nothing of the other session, which may be deleted or expire. Later turns of the fork read its log as that
of any session.
"""

from collections.abc import Sequence
from itertools import count

from turnstone.domain.sessions.context import Entry, Segment
from turnstone.domain.turns.turns import Summary

COPIED_TOKENS = 16_000  # of a copied segment: fewer and larger ones than those of a session, written in one transaction


class LogUpTo:
    """The part of a log up to a turn, as far as these segments hold it.

    Attributes:
        summary: the newest summary that replaces no later turn.
        entries: the turns that it does not replace, oldest first.
        is_complete: whether the segments hold the turn itself.
        tokens: of these turns.
        is_cut: whether the session has earlier turns, which no summary replaces.
    """

    def __init__(self, segments: Sequence[Segment], order: str) -> None:
        summaries = [each.summary for each in segments if each.summary is not None and each.summary.last_order <= order]
        entries = [entry for segment in segments for entry in segment.entries if entry.order <= order]
        self.is_complete = any(entry.order == order for entry in entries)
        self.summary: Summary | None = summaries[-1] if summaries else None
        after = "" if self.summary is None else self.summary.last_order
        self.entries = tuple(entry for entry in entries if entry.order > after)
        self.tokens = sum(entry.tokens for entry in self.entries)
        self.is_cut = self.summary is None and bool(segments) and segments[0].number > 0


def copied_segments(summary: Summary | None, entries: Sequence[Entry], *, is_cut: bool = False) -> tuple[Segment, ...]:
    """Return the log of a new session with these turns.

    Args:
        is_cut: whether earlier turns are left out: the log then begins like one whose first segment was not read.
    """
    numbers = count(int(is_cut))
    segments = [] if summary is None else [Segment(number=next(numbers), summary=summary)]
    tokens, part = 0, list[Entry]()
    for entry in entries:
        part.append(entry)
        tokens += entry.tokens
        if tokens >= COPIED_TOKENS:
            segments.append(Segment(number=next(numbers), entries=tuple(part)))
            tokens, part = 0, []
    if part:
        segments.append(Segment(number=next(numbers), entries=tuple(part)))
    return tuple(segments)
