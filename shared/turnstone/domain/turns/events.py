"""Events of a turn, in the shape of an event's payload in the Llama Stack stream."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import Field

from turnstone.domain.models.requests import Piece
from turnstone.domain.tools.tools import ToolCall
from turnstone.domain.turns.failures import Failure, UnansweredStatus
from turnstone.domain.turns.turns import Step, Turn, TurnState
from turnstone.domain.values.content import Image
from turnstone.domain.values.frozen import Frozen

# for dialects whose answers hold more than the turn; not a part of the JSON of any event
if TYPE_CHECKING:
    CarriedState = TurnState
else:
    CarriedState = Annotated[Any, Field(exclude=True, repr=False)]  # a state is validated, and documented, elsewhere
StepType = Literal["inference", "tool_execution", "shield_call", "memory_retrieval"]


class TextDelta(Frozen):
    type: Literal["text"] = "text"
    text: str


class ImageDelta(Frozen):
    type: Literal["image"] = "image"
    image: Image


class ToolCallDelta(Frozen):
    type: Literal["tool_call"] = "tool_call"
    tool_call: str | ToolCall
    parse_status: Literal["started", "in_progress", "failed", "succeeded"]


StepDelta = Annotated[TextDelta | ImageDelta | ToolCallDelta, Field(discriminator="type")]


class TurnStarted(Frozen):
    event_type: Literal["turn_start"] = "turn_start"
    turn_id: str


class StepStarted(Frozen):
    event_type: Literal["step_start"] = "step_start"
    step_type: StepType
    step_id: str
    metadata: dict[str, Any] = {}


class StepProgressed(Frozen):
    event_type: Literal["step_progress"] = "step_progress"
    step_type: StepType
    step_id: str
    delta: StepDelta


class TextsProgressed(NamedTuple):
    """The texts of an inference that arrived together; each is the delta of an event of its own."""

    step_id: str
    texts: tuple[str, ...]

    @property
    def events(self) -> Iterator[StepProgressed]:
        """The event of each text; texts of a model are valid, and a long answer has thousands of them."""
        for text in self.texts:
            delta = TextDelta.model_construct(text=text)
            yield StepProgressed.model_construct(step_type="inference", step_id=self.step_id, delta=delta)


class StepDetailed(NamedTuple):
    """A part of an inference that the Agents API does not stream: of the model's reasoning, or of a call.

    It has no number, and only subscribers that read details receive it.
    """

    step_id: str
    piece: Piece


class StepCompleted(Frozen):
    event_type: Literal["step_complete"] = "step_complete"
    step_type: StepType
    step_id: str
    step_details: Step


class TurnCompleted(Frozen):
    event_type: Literal["turn_complete"] = "turn_complete"
    turn: Turn
    state: CarriedState


class TurnAwaitsInput(Frozen):
    event_type: Literal["turn_awaiting_input"] = "turn_awaiting_input"
    turn: Turn
    state: CarriedState


class TurnFailed(Frozen):
    """The end of a turn without an answer; not an event of the contract, its stream carries an error instead.

    Attributes:
        status: how the turn ended, None if only this stream did.
        state: the turn as it ended, None if only this stream did.
    """

    event_type: Literal["turn_failed"] = "turn_failed"
    turn_id: str
    failure: Failure
    status: UnansweredStatus | None = None
    state: TurnState | None = Field(default=None, exclude=True, repr=False)


TurnEvent = (
    TurnStarted
    | StepStarted
    | StepProgressed
    | StepDetailed
    | StepCompleted
    | TurnCompleted
    | TurnAwaitsInput
    | TurnFailed
)


class Numbered(NamedTuple):
    """An event with its number in the turn; a delta that combines several has the last number.

    Attributes:
        number: None for an event of one stream only, for a repeated one, and for a detail of a step.
        first: the number of the first combined delta, if any.
    """

    event: TurnEvent
    number: int | None
    first: int | None = None


def call_delta(call: ToolCall) -> ToolCallDelta:
    """Return the delta of a call that the model has made."""
    return ToolCallDelta(tool_call=call, parse_status="failed" if isinstance(call.arguments, str) else "succeeded")


def turn_completed(state: TurnState) -> TurnCompleted:
    return TurnCompleted.model_construct(turn=state.turn, state=state)


def turn_awaits_input(state: TurnState) -> TurnAwaitsInput:
    """Return the event, without the token that wakes the supervisor: a subscriber has no use for it."""
    carried = state if state.token is None else state.model_copy(update={"token": None})
    return TurnAwaitsInput(turn=state.turn, state=carried)


def step_completed(step: Step) -> StepCompleted:
    return StepCompleted.model_construct(step_type=step.step_type, step_id=step.step_id, step_details=step)
