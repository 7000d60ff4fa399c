"""A turn: its steps as the wire shows them, and the state the wire never shows."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from turnstone.domain.agents.agents import TurnOverrides
from turnstone.domain.errors import ContentLost
from turnstone.domain.messages.messages import CompletionMessage, InputMessage
from turnstone.domain.refs import TurnRef
from turnstone.domain.tools.tools import ToolCall, ToolResponse
from turnstone.domain.turns.failures import Failure, TurnFailure, UnansweredStatus, turn_failure
from turnstone.domain.usage.usage import Tokens, TokenUsage, added, factor_of
from turnstone.domain.values.content import Content, Url
from turnstone.domain.values.frozen import Frozen
from turnstone.domain.values.ids import moment_of
from turnstone.domain.values.moments import strictly_after


class StepCommon(Frozen):
    turn_id: str
    step_id: str
    started_at: datetime | None = None
    completed_at: datetime | None = None


class AnsweredBy(Frozen):
    """The provider that gave an answer, and the model's name there."""

    provider_id: str
    model: str


class InferenceStep(StepCommon):
    """An answer of the model.

    Attributes:
        answered_by: told where several could have been asked.
    """

    step_type: Literal["inference"] = "inference"
    model_response: CompletionMessage
    answered_by: AnsweredBy | None = Field(default=None, exclude_if=lambda answered_by: answered_by is None)


class ToolExecutionStep(StepCommon):
    step_type: Literal["tool_execution"] = "tool_execution"
    tool_calls: tuple[ToolCall, ...]
    tool_responses: tuple[ToolResponse, ...]


Touchpoint = Literal["user-input", "assistant-output", "tool-input", "tool-output"]


class SafetyViolation(Frozen):
    """What a shield found. Only one of level `error` stops what was judged."""

    violation_level: Literal["info", "warn", "error"]
    user_message: str | None = None
    metadata: dict[str, Any] = {}


class ShieldCallStep(StepCommon):
    step_type: Literal["shield_call"] = "shield_call"
    violation: SafetyViolation | None = None

    @property
    def has_stopped(self) -> bool:
        return self.violation is not None and self.violation.violation_level == "error"


class MemoryRetrievalStep(StepCommon):
    step_type: Literal["memory_retrieval"] = "memory_retrieval"
    vector_db_ids: str
    inserted_context: Content


Step = Annotated[
    InferenceStep | ToolExecutionStep | ShieldCallStep | MemoryRetrievalStep, Field(discriminator="step_type")
]


class Attachment(Frozen):
    content: Content | Url
    mime_type: str


class Turn(Frozen):
    """A turn as every reader sees it. Field order is the order on the wire.

    Attributes:
        failure: why it ended without an answer, left out where it did not.
    """

    turn_id: str
    session_id: str
    input_messages: tuple[InputMessage, ...]
    steps: tuple[Step, ...] = ()
    output_message: CompletionMessage
    output_attachments: tuple[Attachment, ...] = ()
    started_at: datetime
    completed_at: datetime | None = None
    failure: TurnFailure | None = Field(default=None, exclude_if=lambda failure: failure is None)


class TurnStatus(StrEnum):
    IN_PROGRESS = "in_progress"
    AWAITING_INPUT = "awaiting_input"
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        return self not in (TurnStatus.IN_PROGRESS, TurnStatus.AWAITING_INPUT)


UNANSWERED: dict[TurnStatus, UnansweredStatus] = {
    TurnStatus.FAILED: "failed",
    TurnStatus.EXPIRED: "expired",
    TurnStatus.CANCELLED: "cancelled",
}


class ToolVerdict(Frozen):
    """What a shield found of a tool's answer before that was stored; a step of its own tells it afterwards."""

    shield_id: str
    violation: SafetyViolation | None = None
    usage: TokenUsage | None = None
    model: str = ""


class StepTrace(Frozen):
    """What is kept of a step beside its wire shape.

    Attributes:
        deltas: how many its stream told.
        is_from_client: whether a client ran it.
        input_shields: of a client's step, the shields that judge its answers before the model sees them.
        usage: the tokens it took, of a model.
        model: whom that asked, as the agent names it.
        shield_id: of a shield's step, which shield judged.
        touchpoint: of a shield's step, what it judged.
        call_id: of a shield's step about a tool, which call it was about.
        verdicts: of a tool's step, what shields found of the answer.
        attachments: of a tool's step, the files it made.
    """

    deltas: int = 0
    is_from_client: bool = False
    input_shields: tuple[str, ...] = ()
    usage: TokenUsage | None = None
    model: str = ""
    shield_id: str | None = None
    touchpoint: Touchpoint | None = None
    call_id: str | None = None
    verdicts: tuple[ToolVerdict, ...] = ()
    attachments: tuple[Attachment, ...] = ()


class Summary(Frozen):
    """What a model wrote of turns that its window has no room for, to be sent in their place.

    Attributes:
        first_order, last_order: the first and the last turn it stands for, and with them all in between.
        usage: what it took.
        model: who was asked for it.
    """

    text: str
    first_order: str
    last_order: str
    usage: TokenUsage
    model: str


class EarlierEnds(Frozen):
    """What a turn was when it had its answer, before its client answered calls which it read out of that.

    Attributes:
        times: how often that was.
        steps: how many steps there were the last time.
        spent: what it had spent by then, which its session was charged.
    """

    times: int
    steps: int
    spent: dict[str, Tokens]


class TurnState(Frozen):
    """All there is to know of a turn between two moments of its life: what is stored, loaded and handed to the engine.

    Attributes:
        order: the turn's place in its session (the turn_id for turns we create).
        status: where its life stands.
        pending_calls: the calls a client has still to answer.
        overrides: what this turn changes of its agent, remembered over resume.
        input_shields: the shields that judge its messages before the model sees them, as far as this was stored.
        traces: one per step of `turn.steps`.
        failure: why there is no answer.
        summary: what was written at its end of earlier turns.
        earlier_ends: when it had its answer before, None for a turn that was never opened again.
        takeovers: how often in a row a process took the turn over, and stored no step before it was gone, too.
        steps_at_takeover: how many steps there were when it was last taken over.
        steps_at_first_takeover: how many there were when it first was; what was told after them may have been lost.
        is_lost: its content is lost, and this only stands in its place.
        token: what wakes the supervisor that waits with the turn for its client; gone when the turn moves on.
        rev: revision of the record this was read from, 0 before it is stored.
    """

    turn: Turn
    order: str
    status: TurnStatus = TurnStatus.IN_PROGRESS
    pending_calls: tuple[ToolCall, ...] = ()
    overrides: TurnOverrides = TurnOverrides.model_construct()
    input_shields: tuple[str, ...] = ()
    traces: tuple[StepTrace, ...] = ()
    failure: Failure | None = None
    summary: Summary | None = None
    earlier_ends: EarlierEnds | None = None
    takeovers: int = 0
    steps_at_takeover: int = 0
    steps_at_first_takeover: int | None = None
    is_lost: bool = False
    token: str | None = None
    rev: int = 0

    @property
    def turn_id(self) -> str:
        return self.turn.turn_id

    def check_content(self) -> None:
        """Raise ContentLost if the turn's content is lost."""
        if self.is_lost:
            raise ContentLost("turn", self.turn_id)

    @property
    def inference_count(self) -> int:
        """How often the model has answered, over all resumes."""
        return sum(isinstance(step, InferenceStep) for step in self.turn.steps)

    @property
    def spent(self) -> dict[str, Tokens]:
        """What its finished inferences took, and that of a summary, by model."""
        return added(self.earlier_ends.spent, self.uncharged) if self.earlier_ends else self.uncharged

    @property
    def uncharged(self) -> dict[str, Tokens]:
        """What it spent since its session was last charged for it, by model."""
        spent: dict[str, Tokens] = {}
        charged = self.earlier_ends.steps if self.earlier_ends else 0
        for asked in (*self.traces[charged:], *((self.summary,) if self.summary else ())):
            if asked.usage is not None:
                spent = added(spent, {asked.model: asked.usage.spent})
        return spent

    def token_factor(self, otherwise: float) -> float:
        """Return how many tokens its model counts for each that we estimate, as far as it told."""
        return factor_of((trace.usage for trace in self.traces if trace.usage is not None), otherwise)

    @property
    def running_time(self) -> timedelta:
        """Time that its finished steps took; waits for its client and for another process are no part of it."""
        took, until = timedelta(), self.turn.started_at
        for step, trace in zip(self.turn.steps, self.traces, strict=False):
            if step.completed_at is None or step.completed_at <= until:
                continue
            if not trace.is_from_client:
                took += step.completed_at - max(step.started_at or until, until)
            until = step.completed_at
        return took

    @property
    def last_moment(self) -> datetime:
        """When something last happened to it, as far as it is stored."""
        steps = self.turn.steps
        return self.turn.completed_at or (steps[-1].completed_at if steps else None) or self.turn.started_at

    def next_moment(self, now: datetime) -> datetime:
        """Return now as a time behind everything that is stored of the turn: clients sort its steps by their times."""
        return strictly_after(now, self.last_moment)

    @property
    def takeovers_in_vain(self) -> int:
        """How often in a row it was taken over since a step was stored last."""
        return self.takeovers if len(self.turn.steps) == self.steps_at_takeover else 0

    def with_step(self, step: Step, trace: StepTrace | None = None) -> "TurnState":
        """Return the state with one more finished step, and the files it made."""
        trace = trace or StepTrace()
        changes: dict[str, Any] = {"steps": (*self.turn.steps, step)}
        if trace.attachments:
            changes["output_attachments"] = (*self.turn.output_attachments, *trace.attachments)
        turn = self.turn.model_copy(update=changes)
        return self.model_copy(update={"turn": turn, "traces": (*self.traces, trace)})

    def completed(self, output: CompletionMessage, at: datetime) -> "TurnState":
        """Return the state of the turn that has its answer."""
        turn = self.turn.model_copy(update={"output_message": output, "completed_at": self.next_moment(at)})
        return self.model_copy(update={"turn": turn, "status": TurnStatus.COMPLETED, "pending_calls": ()})

    def reopened(self) -> "TurnState":
        """Return the state of the turn that had its answer and goes on; what it spent until now is charged."""
        before = self.earlier_ends.times if self.earlier_ends else 0
        ends = EarlierEnds(times=before + 1, steps=len(self.turn.steps), spent=self.spent)
        turn = self.turn.model_copy(update={"completed_at": None})
        return self.model_copy(update={"turn": turn, "summary": None, "earlier_ends": ends})

    def given_up(self, status: TurnStatus, failure: Failure, at: datetime) -> "TurnState":
        """Return the state of the turn that ended without an answer; its finished steps stay."""
        output = self.turn.output_message if self.is_lost else silent_output("end_of_turn")
        ended = {"output_message": output, "completed_at": self.next_moment(at)}
        turn = self.turn.model_copy(update=ended)
        changes = {"turn": turn, "status": status, "failure": failure, "pending_calls": ()}
        return self.model_copy(update=changes).with_shown_failure()

    def with_shown_failure(self) -> "TurnState":
        """Return the state whose turn shows why it has no answer, if it ended without one."""
        status = UNANSWERED.get(self.status)
        if status is None:
            return self
        shown = turn_failure(self.turn_id, status, self.failure)
        return self.model_copy(update={"turn": self.turn.model_copy(update={"failure": shown})})


class NewTurn(Frozen):
    """What a caller asks of a turn."""

    messages: tuple[InputMessage, ...]
    overrides: TurnOverrides = TurnOverrides.model_construct()


def newest_from_client(steps: Sequence[Step], traces: Sequence[StepTrace]) -> int | None:
    """Return the place behind what the client sent last: 0 for its messages; None once the model answered to that."""
    for index in range(len(traces) - 1, -1, -1):
        if traces[index].is_from_client:
            return index + 1
        if isinstance(steps[index], InferenceStep):
            return None
    return 0


def silent_output(stop_reason: Literal["end_of_turn", "end_of_message"] = "end_of_message") -> CompletionMessage:
    """Return the output message of a turn that has said nothing yet."""
    return CompletionMessage(content="", stop_reason=stop_reason)


LOST = "[The content of this turn is lost: the server's stored copy of it is missing or damaged.]"


def lost_turn(ref: TurnRef, status: TurnStatus) -> TurnState:
    """Return what stands in the place of a turn whose content is lost: its ids, the time it began, and a word on that.

    When it ended is lost, too. One that has ended shows the time it began: a turn without an end counts as open.
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
