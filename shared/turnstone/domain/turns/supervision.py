"""State of a turn in a supervisor's state machine: its next check, and its condition until then."""

import math
from datetime import datetime
from typing import Literal

from turnstone.domain.turns.turns import TurnStatus
from turnstone.domain.values.frozen import Frozen

AFTER_LEASE_S = 5  # so that a lease has expired by every clock at the check
AFTER_DEADLINE_S = 1
GONE = "gone"


class NextCheck(Frozen):
    """The machine's next action.

    Attributes:
        next: await the client, watch a running turn, reconcile it at once, or done.
        seconds: the longest wait, at least 1, as state machines require.
        status: the turn's status; `gone` if it was removed.
    """

    next: Literal["await", "watch", "attend", "done"]
    seconds: int
    status: str


def next_check(status: TurnStatus | None, check_at: datetime | None, now: datetime) -> NextCheck:
    """Return the next action for a turn in this state, None for a removed one, with the next check at that time."""
    if status is None or check_at is None:
        return NextCheck(next="done", seconds=1, status=status or GONE)
    left = math.ceil((check_at - now).total_seconds())
    if left <= 0:
        return NextCheck(next="attend", seconds=1, status=status)
    if status is TurnStatus.AWAITING_INPUT:
        return NextCheck(next="await", seconds=left + AFTER_DEADLINE_S, status=status)
    return NextCheck(next="watch", seconds=left + AFTER_LEASE_S, status=status)
