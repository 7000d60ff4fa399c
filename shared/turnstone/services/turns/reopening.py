"""Which completed turns can go on with answers to calls that their client read out of their text."""

from collections.abc import Sequence

from turnstone.domain.errors import TurnNotAwaiting
from turnstone.domain.sessions.sessions import Session
from turnstone.domain.tools.tools import ToolResponse
from turnstone.domain.turns.turns import InferenceStep, ShieldCallStep, TurnState


def refuse_reopening(session: Session, state: TurnState, responses: Sequence[ToolResponse], most: int) -> None:
    """Raise TurnNotAwaiting unless the completed turn can go on with these answers to calls in its text.

    It must be the session's newest turn, with an answer of its model that calls nothing itself; and what answers a call
    that the model did make, and that is answered, is a resume sent twice.
    """
    answers = [step.model_response for step in state.turn.steps if isinstance(step, InferenceStep)]
    if session.last_order != state.order:
        why = "and can't be resumed: only the newest turn of a session can"
    elif any(isinstance(step, ShieldCallStep) and step.has_stopped for step in state.turn.steps):
        why = "and can't be resumed: a safety check stopped it"
    elif state.turn.output_message.stop_reason != "end_of_turn":
        why = "and can't be resumed: its answer was cut off by the token limit"
    elif not answers or answers[-1].tool_calls:
        why = "and can't be resumed: it reached its limit of inferences with calls unanswered"
    elif again := {call.call_id for answer in answers for call in answer.tool_calls} & {r.call_id for r in responses}:
        why = f"and its call {min(again)!r} is already answered"
    elif len(answers) >= most:
        why = f"and has made {most} inferences, the most that this server allows a turn"
    else:
        return
    raise TurnNotAwaiting(state.turn_id, state.status, why)
