"""Which completed turns can go on with answers to calls that their client read out of their text."""

from collections.abc import Sequence

from turnstone.domain.errors import TurnNotAwaiting
from turnstone.domain.sessions import Session
from turnstone.domain.tools import ToolResponse
from turnstone.domain.turns import InferenceStep, ShieldCallStep, TurnState


def refuse_reopening(session: Session, state: TurnState, responses: Sequence[ToolResponse], most: int) -> None:
    """Raise TurnNotAwaiting unless the completed turn can go on with these answers to calls in its text.

    It must be the session's newest turn, with an answer of its model that calls nothing itself; and what answers a call
    that the model did make, and that is answered, is a resume sent twice.
    """
    answers = [step.model_response for step in state.turn.steps if isinstance(step, InferenceStep)]
    if session.last_order != state.order:
        why = "and a later turn follows it; only the newest turn of a session can be resumed"
    elif any(isinstance(step, ShieldCallStep) and step.has_stopped for step in state.turn.steps):
        why = "because a safety check stopped it"
    elif state.turn.output_message.stop_reason != "end_of_turn":
        why = "its answer was cut off by the token limit"
    elif not answers or answers[-1].tool_calls:
        why = "it ended with calls that nobody answered, at its limit of inferences"
    elif again := {call.call_id for answer in answers for call in answer.tool_calls} & {r.call_id for r in responses}:
        why = f"and its call {min(again)!r} is answered already"
    elif len(answers) >= most:
        why = f"and has made {most} inferences, which is all that this server allows a turn"
    else:
        return
    raise TurnNotAwaiting(state.turn_id, state.status, why)
