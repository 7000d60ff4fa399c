"""Alerts in the history that the context window is nearly full. Pure."""

from collections.abc import Iterable, Sequence
from itertools import chain

from turnstone.domain.messages.messages import Message
from turnstone.domain.sessions.context import Entry, Segment
from turnstone.domain.turns.loop_policies import NEARLY_FULL


def without_old_alerts(
    segments: Sequence[Segment], entries: Sequence[Entry], messages: Iterable[tuple[Message, ...]]
) -> list[tuple[Message, ...]]:
    """Return the messages of each turn, without alerts that the newest summary has followed: it made room.

    A turn without such an alert is returned as it is, not as a copy.
    """
    after_summary = next((index for index, each in enumerate(reversed(segments)) if each.summary is not None), None)
    if after_summary is None:
        return list(messages)
    newer = chain.from_iterable(segment.entries for segment in segments[len(segments) - after_summary :])
    orders = {entry.order for entry in newer}
    return [
        turn if entry.order in orders or NEARLY_FULL not in turn else _without_alert(turn)
        for entry, turn in zip(entries, messages, strict=True)
    ]


def _without_alert(turn: tuple[Message, ...]) -> tuple[Message, ...]:
    return tuple(message for message in turn if message != NEARLY_FULL)
