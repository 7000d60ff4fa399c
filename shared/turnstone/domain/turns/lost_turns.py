"""Placeholders of turns whose stored content is lost."""

from turnstone.domain.messages.messages import CompletionMessage
from turnstone.domain.refs import TurnRef
from turnstone.domain.turns.turns import Turn, TurnState, TurnStatus
from turnstone.domain.values.ids import moment_of

LOST = "[The content of this turn is lost: the server's stored copy of it is missing or damaged.]"


def lost_turn(ref: TurnRef, status: TurnStatus) -> TurnState:
    """Return the placeholder of a turn whose content is lost: its ids, its start, and a notice.

    Its end is lost, too. An ended one shows its start as its end: a turn without an end counts as open.
    """
    began_at = moment_of(ref.turn_id)
    turn = Turn(
        turn_id=ref.turn_id,
        session_id=ref.session_id,
        input_messages=(),
        output_message=CompletionMessage(content=LOST, stop_reason="end_of_turn"),
        started_at=began_at,
        completed_at=began_at if status.is_terminal else None,
    )
    return TurnState(turn=turn, order=ref.turn_id, status=status, is_lost=True).with_shown_failure()
