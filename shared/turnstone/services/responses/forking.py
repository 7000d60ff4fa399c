"""Forks of conversations: a response that continues an older one, or one whose conversation has continued since."""

from turnstone.domain.refs import SessionRef
from turnstone.domain.responses.requests import SentRequest
from turnstone.domain.sessions.context import Entry, Segment, entry_of
from turnstone.domain.sessions.forks import LogUpTo, copied_segments
from turnstone.domain.turns.turns import TurnState
from turnstone.store.sessions.turns import SessionView, TurnStore

NEAR = 2  # segments behind that of the opening: the turn's own entry, and a summary


class ForkNeeded(Exception):
    """The response to continue is not the newest of its conversation, or another request was faster.

    Attributes:
        view: the conversation as read.
        state: the turn of the response to continue, which has ended.
        sent: its request.
    """

    def __init__(self, view: SessionView, state: TurnState, sent: SentRequest) -> None:
        super().__init__(state.order)
        self.view = view
        self.state = state
        self.sent = sent


class Forking:
    def __init__(self, turns: TurnStore, read_tokens: int) -> None:
        """Take the tokens of the log that a fork begins with."""
        self._turns = turns
        self._read_tokens = read_tokens

    def log_of(self, ref: SessionRef, needed: ForkNeeded) -> tuple[Segment, ...]:
        """Return the log of the fork: a copy of the session's, up to the turn to continue. Raises StoreUnavailable."""
        order = needed.state.order
        log = LogUpTo(needed.view.segments, order)
        if not log.is_complete:
            log = LogUpTo(self._turns.segments_up_to(ref, needed.sent.segment + NEAR, self._read_tokens), order)
        entries = log.entries if log.is_complete else (*log.entries, entry_of(needed.state))
        return copied_segments(log.summary, self._whole(ref, entries))

    def _whole(self, ref: SessionRef, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
        """Return the entries with their messages, those included that only their turns hold."""
        messages = self._turns.messages_of(ref, entries)
        return tuple(
            entry if entry.messages is not None else entry.model_copy(update={"messages": whole})
            for entry, whole in zip(entries, messages, strict=True)
        )
