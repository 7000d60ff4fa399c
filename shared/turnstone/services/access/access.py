"""Access rules: a record that the caller may not see looks like a missing one."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from turnstone.domain.access.access import ADMIN, Ownership, may_delete, may_see
from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import Forbidden, NotFound

if TYPE_CHECKING:  # a function whose routes read agents only needs none
    from turnstone.domain.sessions.sessions import Session


class AccessRules:
    """The rules of this server. `owner_only` hides records without groups from all but their owner."""

    def __init__(self, *, owner_only: bool) -> None:
        self._owner_only = owner_only

    def may_see(self, caller: Caller, stamp: Ownership) -> bool:
        return may_see(caller, stamp, owner_only=self._owner_only)

    def check_sight(self, caller: Caller, stamp: Ownership, kind: str, identifier: str) -> None:
        """Raise NotFound, as for a missing record, unless the caller may see a record of this ownership."""
        if not self.may_see(caller, stamp):
            raise NotFound(kind, identifier)

    def check_deletion(self, caller: Caller, stamp: Ownership, kind: str, identifier: str, act: str = "delete") -> None:
        """Raise NotFound if the caller may not see the record, Forbidden if only another may delete or change it."""
        if may_delete(caller, stamp):
            return
        self.check_sight(caller, stamp, kind, identifier)
        raise Forbidden(f"{kind} {identifier!r}: only its owner, or a caller with the role {ADMIN!r}, may {act} it")


def check_session(rules: AccessRules, caller: Caller, session: Session, agent_owner: Ownership, now: datetime) -> None:
    """Raise NotFound, always of the session, unless it lives and the caller may see it and its agent."""
    if session.is_over(now):
        raise NotFound("session", session.session_id)
    for stamp in (agent_owner, session.stamp):
        rules.check_sight(caller, stamp, "session", session.session_id)
