"""Forks of conversations: a response that continues an older one, or one whose conversation has continued since."""

from collections.abc import Sequence

from turnstone.domain.refs import SessionRef
from turnstone.domain.responses.requests import SentRequest
from turnstone.domain.sessions.context import Entry, Segment, entry_of, newest_entries
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
    def __init__(self, turns: TurnStore) -> None:
        self._turns = turns

    def log_of(self, ref: SessionRef, needed: ForkNeeded, read_tokens: int) -> tuple[Segment, ...]:
        """Return the log of the fork: the newest part of the session's, up to the turn to continue.

        Args:
            read_tokens: the tokens that the model's context may hold.

        Raises:
            StoreUnavailable: the session's log can't be read.
        """
        order = needed.state.order
        log = LogUpTo(needed.view.segments, order)
        if not log.is_complete or (log.is_cut and log.tokens < read_tokens):
            log = LogUpTo(self._turns.segments_up_to(ref, needed.sent.segment + NEAR, read_tokens), order)
        entries = log.entries if log.is_complete else (*log.entries, entry_of(needed.state))
        newest, _ = newest_entries(entries, read_tokens)
        is_cut = log.is_cut or len(newest) < len(entries)
        return copied_segments(log.summary, self._whole(ref, newest), is_cut=is_cut)

    def _whole(self, ref: SessionRef, entries: Sequence[Entry]) -> tuple[Entry, ...]:
        """Return the entries with their messages, those included that only their turns hold."""
        messages = self._turns.messages_of(ref, entries)
        return tuple(
            entry if entry.messages is not None else entry.model_copy(update={"messages": whole})
            for entry, whole in zip(entries, messages, strict=True)
        )
