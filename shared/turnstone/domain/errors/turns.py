"""Errors of requests that the state of a session or turn forbids."""

from typing import Any

from turnstone.domain.errors.root import TurnstoneError


class TurnConflict(TurnstoneError):
    """The session or the turn is in a state that forbids this."""

    def __init__(self, message: str, turn_id: str) -> None:
        super().__init__(message)
        self.turn_id = turn_id


class TurnRunning(TurnConflict):
    """Another turn of the session runs."""

    def __init__(self, turn_id: str) -> None:
        super().__init__(
            f"turn {turn_id!r} of this session is still running; wait for it to end, or cancel it", turn_id
        )


class TurnAwaited(TurnRunning):
    """Another turn of the session runs, and the request may wait for its end.

    Attributes:
        ref: that turn, a `TurnRef`.
        patience_s: the longest wait.
    """

    def __init__(self, ref: Any, patience_s: float) -> None:
        super().__init__(ref.turn_id)
        self.ref = ref
        self.patience_s = patience_s


class TurnNotAwaiting(TurnConflict):
    """The turn has no pending tool calls."""

    def __init__(self, turn_id: str, status: str, why: str = "and awaits no tool responses") -> None:
        super().__init__(f"turn {turn_id!r} is {status} {why}; start a new turn", turn_id)
        self.status = status


class TurnEnded(TurnConflict):
    """The turn has ended without being cancelled."""

    def __init__(self, turn_id: str, status: str) -> None:
        super().__init__(f"turn {turn_id!r} is {status}: there is nothing to cancel", turn_id)
        self.status = status
