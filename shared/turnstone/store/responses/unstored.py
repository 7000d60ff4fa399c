"""The turns of responses that are not stored: their runs read what others stored, and write the day's usage alone."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from turnstone.domain.errors import NotFound, StoreUnavailable
from turnstone.store.sessions.turns import Change, TurnStore
from turnstone.store.usage.usage import put_spent

if TYPE_CHECKING:
    from datetime import datetime

    from turnstone.domain.refs import SessionRef, TurnRef
    from turnstone.domain.sessions.sessions import Session
    from turnstone.domain.turns.turns import TurnState

log = logging.getLogger(__name__)


class UnstoredTurns(TurnStore):
    """A store of turns that keeps none of them."""

    def commit(self, ref: SessionRef, change: Change) -> Change:
        """Return the transition as if it was stored; only the tokens that it spent are. Never raises Conflict."""
        if change.has_spent:
            try:
                self._store.write([put_spent(ref, change.session)])
            except StoreUnavailable as unavailable:
                log.warning("the usage of session %s is not counted: %s", ref.session_id, unavailable)
        session = change.session.model_copy(update={"rev": change.session.rev + 1})
        return change._replace(session=session)

    def save_step(self, ref: SessionRef, session: Session, state: TurnState) -> Session:  # noqa: ARG002 - keeps nothing
        """Return the session."""
        return session

    def renew(self, ref: TurnRef, fence: int, lease_until: datetime) -> None:
        """Do nothing: no other process can take the turn over."""

    def discard_steps(self, ref: SessionRef, order: str, count: int) -> None:
        """Do nothing: there are no records of steps."""

    def load(self, ref: TurnRef) -> tuple[Session, TurnState]:
        """Raise NotFound."""
        raise NotFound("turn", ref.turn_id)
