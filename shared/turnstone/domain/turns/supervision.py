"""State of a turn in a supervisor's state machine: its next check, and its condition until then."""

import math
from datetime import datetime
from typing import Literal

from turnstone.domain.turns.turns import TurnStatus
from turnstone.domain.values.model import Frozen

AFTER_LEASE_S = 5  # so that a lease has expired by every clock at the check
AFTER_DEADLINE_S = 1
GONE = "gone"


class NextLook(Frozen):
    """The machine's next action.

    Attributes:
        next: await the client, watch a running turn, reconcile it at once, or done.
        seconds: the longest wait, at least 1, as state machines require.
        status: the turn's status; `gone` if it was removed.
    """

    next: Literal["await", "watch", "attend", "done"]
    seconds: int
    status: str


def next_look(status: TurnStatus | None, look_again_at: datetime | None, now: datetime) -> NextLook:
    """Return the next action for a turn in this state, None for a removed one, with the next check at that time."""
    if status is None or look_again_at is None:
        return NextLook(next="done", seconds=1, status=status or GONE)
    left = math.ceil((look_again_at - now).total_seconds())
    if left <= 0:
        return NextLook(next="attend", seconds=1, status=status)
    if status is TurnStatus.AWAITING_INPUT:
        return NextLook(next="await", seconds=left + AFTER_DEADLINE_S, status=status)
    return NextLook(next="watch", seconds=left + AFTER_LEASE_S, status=status)
