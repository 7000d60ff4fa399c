"""What a supervisor's state machine carries of a turn: when to look at it again, and what it waits for until then."""

import math
from datetime import datetime
from typing import Literal

from turnstone.domain.turns.turns import TurnStatus
from turnstone.domain.values.frozen import Frozen

AFTER_LEASE_S = 5  # so that a lease is over by every clock when somebody looks
AFTER_DEADLINE_S = 1
GONE = "gone"


class NextLook(Frozen):
    """How the machine goes on.

    Attributes:
        next: await the client, watch a running turn, attend to it at once, or done.
        seconds: how long to wait at most, at least 1, as state machines want it.
        status: where the turn's life stands; `gone` if it was removed.
    """

    next: Literal["await", "watch", "attend", "done"]
    seconds: int
    status: str


def next_look(status: TurnStatus | None, look_again_at: datetime | None, now: datetime) -> NextLook:
    """Return how to go on with a turn in this state, None for one that is gone, to be looked at again at that time."""
    if status is None or look_again_at is None:
        return NextLook(next="done", seconds=1, status=status or GONE)
    left = math.ceil((look_again_at - now).total_seconds())
    if left <= 0:
        return NextLook(next="attend", seconds=1, status=status)
    if status is TurnStatus.AWAITING_INPUT:
        return NextLook(next="await", seconds=left + AFTER_DEADLINE_S, status=status)
    return NextLook(next="watch", seconds=left + AFTER_LEASE_S, status=status)
