"""The encoding of a turn's stream by a dialect, as the replies of its routes take it; imported for types only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from turnstone.domain.turns.events import Numbered


class TurnEncoder(Protocol):
    """A dialect's encoding of one stream of a turn, whose events it gets once each and in order.

    It may keep state, as a fold over the events alone, without a clock or random ids: another encoder makes the same
    bytes of the same events, whether they happen now or are read from the store.

    Attributes:
        reads_details: whether it gets the details of steps, too, such as reasoning.
    """

    reads_details: bool

    def encode(self, numbered: Numbered, /) -> bytes:
        """Return the event as server-sent events with the dialect's ids, empty for an event without a form in it."""

    def stopped(self, message: str, /) -> bytes:
        """Return the end of a stream that the server stops, although the turn continues elsewhere."""
