"""The status of a response, which its turn determines, and the reason why it is incomplete."""

from typing import Literal

from turnstone.domain.turns.turns import TurnState, TurnStatus

ResponseStatus = Literal["in_progress", "completed", "incomplete", "failed", "cancelled"]


def status_of(state: TurnState) -> ResponseStatus:
    """Return the status of the turn's response.

    A turn that pauses or runs is in progress; one that expired has failed.
    """
    match state.status:
        case TurnStatus.COMPLETED:
            return "completed" if incompleteness_of(state) is None else "incomplete"
        case TurnStatus.CANCELLED:
            return "cancelled"
        case TurnStatus.FAILED | TurnStatus.EXPIRED:
            return "failed"
    return "in_progress"


def incompleteness_of(state: TurnState) -> str | None:
    """Return why the response of the completed turn is incomplete, in the words of the API; None if it is not."""
    return "max_output_tokens" if state.turn.output_message.stop_reason == "out_of_tokens" else None
