"""Placeholders of turns whose stored content is lost, or that a newer version stored."""

from turnstone.domain.messages.messages import CompletionMessage
from turnstone.domain.refs import TurnRef
from turnstone.domain.turns.turns import Turn, TurnState, TurnStatus
from turnstone.domain.values.ids import moment_of

LOST = "[The content of this turn is lost: the server's stored copy of it is missing or damaged.]"
NEWER = "[This turn was stored by a newer version of Turnstone, which this version cannot read.]"


def lost_turn(ref: TurnRef, status: TurnStatus) -> TurnState:
    """Return the placeholder of a turn whose content is lost: its ids, its start, and a notice.

    Its end is lost, too. An ended one shows its start as its end: a turn without an end counts as open.
    """
    turn = _notice(ref, LOST, has_ended=status.is_terminal)
    return TurnState(turn=turn, order=ref.turn_id, status=status, is_lost=True).with_shown_failure()


def newer_turn(ref: TurnRef) -> Turn:
    """Return the placeholder of a turn that this version cannot read; its status is unreadable, too."""
    return _notice(ref, NEWER, has_ended=True)


def _notice(ref: TurnRef, text: str, *, has_ended: bool) -> Turn:
    began_at = moment_of(ref.turn_id)
    return Turn(
        turn_id=ref.turn_id,
        session_id=ref.session_id,
        input_messages=(),
        output_message=CompletionMessage(content=text, stop_reason="end_of_turn"),
        started_at=began_at,
        completed_at=began_at if has_ended else None,
    )
