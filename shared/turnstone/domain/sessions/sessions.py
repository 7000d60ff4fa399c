"""Sessions of an agent, and the lock of a session.

At most one turn of a session is open. The lock holds its order key, its writer (by the fence, a growing number), and
the end of its validity: the lease of the running process, or the deadline of the client. A queued turn has neither: no
process has run it yet.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

from turnstone.domain.access.access import Ownership
from turnstone.domain.usage.usage import SpentToday, Tokens, spent_by
from turnstone.domain.values.frozen import Frozen
from turnstone.domain.values.ids import moment_of


class LockState(StrEnum):
    IDLE = "idle"
    QUEUED = "queued"
    RUNNING = "running"
    AWAITING = "awaiting"


UNCLAIMED_AFTER = timedelta(seconds=30)


class SessionLock(Frozen):
    """Write permission for the session's open turn.

    Attributes:
        order: that turn's order key.
        reopened: the number of times it was completed before.
    """

    state: LockState = LockState.IDLE
    order: str | None = None
    fence: int = 0
    reopened: int = 0
    lease_until: datetime | None = None
    await_until: datetime | None = None

    def taken(self, order: str, lease_until: datetime, reopened: int = 0) -> "SessionLock":
        """Return the lock for a process that runs the turn; the fence excludes every earlier holder."""
        return SessionLock.model_construct(
            state=LockState.RUNNING, order=order, fence=self.fence + 1, reopened=reopened, lease_until=lease_until
        )

    def queued(self, order: str) -> "SessionLock":
        """Return the lock for a new turn that a process has yet to claim; the fence excludes every earlier holder."""
        return SessionLock.model_construct(state=LockState.QUEUED, order=order, fence=self.fence + 1)

    def awaiting(self, await_until: datetime) -> "SessionLock":
        """Return the lock for a turn that awaits its client."""
        return SessionLock(
            state=LockState.AWAITING,
            order=self.order,
            fence=self.fence,
            reopened=self.reopened,
            await_until=await_until,
        )

    def released(self) -> "SessionLock":
        return SessionLock.model_construct(fence=self.fence)

    def is_live(self, now: datetime) -> bool:
        """Return whether a process runs the turn under a valid lease."""
        return self.state is LockState.RUNNING and self.lease_until is not None and now < self.lease_until

    def is_abandoned(self, now: datetime) -> bool:
        """Return whether the lease of the process that ran the turn has expired."""
        return self.state is LockState.RUNNING and not self.is_live(now)

    def is_unclaimed(self, now: datetime) -> bool:
        """Return whether the turn is queued for longer than a process with a free slot takes to claim it."""
        is_queued = self.state is LockState.QUEUED and self.order is not None
        return is_queued and now >= moment_of(str(self.order)) + UNCLAIMED_AFTER

    def is_overdue(self, now: datetime) -> bool:
        """Return whether the deadline of the awaited client has passed."""
        return self.state is LockState.AWAITING and self.await_until is not None and now >= self.await_until

    def check_at(self) -> datetime | None:
        """Return when the lock may expire, None without a holder."""
        return self.lease_until if self.state is LockState.RUNNING else self.await_until


class Session(Frozen):
    """A stored session: the header of its partition, without its turns.

    Attributes:
        order: the session's position in the list of its agent's sessions.
        last_order: order key of the newest turn, so that clock skew can't reorder turns.
        last_request: fingerprint of the request that opened the newest turn, or last resumed it.
        stamp: the owner and the access list.
        lives_for_s: the lifetime after its last use, None for no expiry.
        ends_at: the resulting expiry, unless it is used again.
        spent: the tokens of the turns that ended on the day of the last one.
        token_factor: the model's tokens per estimated token, as last reported.
        vector_db_id: the bank that its creator named for its turns, None without one.
        has_bank: whether it has a bank of its own, or had attachments for which one is made.
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
    stamp: Ownership = Ownership.model_construct()
    lives_for_s: float | None = None
    ends_at: datetime | None = None
    spent: SpentToday | None = None
    token_factor: float = 1.0
    vector_db_id: str | None = None
    has_bank: bool = False
    rev: int = 0

    def is_over(self, now: datetime) -> bool:
        """Return whether the session has expired; an open turn keeps it alive."""
        return self.ends_at is not None and now >= self.ends_at and self.lock.state is LockState.IDLE

    def used(self, at: datetime) -> "Session":
        """Return the session as used at that time, which extends an expiry."""
        if self.lives_for_s is None:
            return self
        return self.model_copy(update={"ends_at": at + timedelta(seconds=self.lives_for_s)})

    def charged(self, by_model: Mapping[str, Tokens], at: datetime, token_factor: float) -> "Session":
        """Return the session charged for a turn that ended at that time."""
        spent = spent_by(self.spent, by_model, at)
        return self.model_copy(update={"spent": spent, "token_factor": token_factor})
