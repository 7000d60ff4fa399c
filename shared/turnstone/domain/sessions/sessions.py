"""A session of an agent, and who holds its lock.

At most one turn of a session is open. The lock says which, who may write to it (the fence, a number that only grows)
and until when (the lease of the process that runs it, or the deadline of the client it waits for).
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

from turnstone.domain.access.access import Stamp
from turnstone.domain.usage.usage import SpentToday, Tokens, spent_by
from turnstone.domain.values.frozen import Frozen


class LockState(StrEnum):
    IDLE = "idle"
    RUNNING = "running"
    AWAITING = "awaiting"


class SessionLock(Frozen):
    """Who may write to the session's open turn.

    Attributes:
        order: that turn's order key.
        reopened: how often it had its answer before.
    """

    state: LockState = LockState.IDLE
    order: str | None = None
    fence: int = 0
    reopened: int = 0
    lease_until: datetime | None = None
    await_until: datetime | None = None

    def taken(self, order: str, lease_until: datetime, reopened: int = 0) -> "SessionLock":
        """Return the lock as held by a process that runs the turn; the fence shuts out every earlier holder."""
        return SessionLock(
            state=LockState.RUNNING, order=order, fence=self.fence + 1, reopened=reopened, lease_until=lease_until
        )

    def awaiting(self, await_until: datetime) -> "SessionLock":
        """Return the lock as held by a turn that waits for its client."""
        return SessionLock(
            state=LockState.AWAITING,
            order=self.order,
            fence=self.fence,
            reopened=self.reopened,
            await_until=await_until,
        )

    def released(self) -> "SessionLock":
        return SessionLock(fence=self.fence)

    def is_live(self, now: datetime) -> bool:
        """Tell whether a process runs the turn and its lease is not over."""
        return self.state is LockState.RUNNING and self.lease_until is not None and now < self.lease_until

    def is_abandoned(self, now: datetime) -> bool:
        """Tell whether the turn was being run by a process whose lease is over."""
        return self.state is LockState.RUNNING and not self.is_live(now)

    def is_overdue(self, now: datetime) -> bool:
        """Tell whether the turn waits for a client whose deadline is over."""
        return self.state is LockState.AWAITING and self.await_until is not None and now >= self.await_until

    def look_again_at(self) -> datetime | None:
        """Return when the lock may have to be taken from its holder, None if nobody holds it."""
        return self.lease_until if self.state is LockState.RUNNING else self.await_until


class Session(Frozen):
    """A session as stored: the header of its partition, without its turns.

    Attributes:
        order: the session's place in the list of its agent's sessions.
        last_order: order key of the newest turn, so that clock skew can't reorder turns.
        last_request: fingerprint of the request that opened the newest turn, or resumed it last.
        stamp: who created it, and who may see it.
        lives_for_s: how long it lives after its last use, None if it stays until it is deleted.
        ends_at: until when it lives then, unless it is used again.
        spent: the tokens of the turns that ended on the day of the last one.
        token_factor: how many tokens its model counts for each that we estimate, as far as it told.
        rev: revision of the record this was read from, 0 before it is stored.
    """

    agent_id: str
    session_id: str
    session_name: str
    started_at: datetime
    order: str
    last_order: str | None = None
    last_request: str | None = None
    lock: SessionLock = SessionLock.model_construct()
    stamp: Stamp = Stamp.model_construct()
    lives_for_s: float | None = None
    ends_at: datetime | None = None
    spent: SpentToday | None = None
    token_factor: float = 1.0
    rev: int = 0

    def is_over(self, now: datetime) -> bool:
        """Tell whether it has lived as long as it may; a turn that has not ended keeps it alive."""
        return self.ends_at is not None and now >= self.ends_at and self.lock.state is LockState.IDLE

    def used(self, at: datetime) -> "Session":
        """Return the session as one that was used then, which makes it live longer if it does not stay."""
        if self.lives_for_s is None:
            return self
        return self.model_copy(update={"ends_at": at + timedelta(seconds=self.lives_for_s)})

    def charged(self, by_model: Mapping[str, Tokens], at: datetime, token_factor: float) -> "Session":
        """Return the session with what a turn that ended then has spent."""
        spent = spent_by(self.spent, by_model, at)
        return self.model_copy(update={"spent": spent, "token_factor": token_factor})
