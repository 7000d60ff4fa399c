"""Turns: the steps in their wire form, and the internal state."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from turnstone.domain.agents.agents import AgentConfig, TurnOverrides
from turnstone.domain.errors import ContentLost
from turnstone.domain.memory.memory_query import MemoryQuery
from turnstone.domain.messages.messages import CompletionMessage, Message, ToolResponseMessage
from turnstone.domain.tools.tools import ToolCall, ToolResponse
from turnstone.domain.turns.failures import Failure, TurnFailure, UnansweredStatus, turn_failure
from turnstone.domain.turns.turn_settings import TurnSettings
from turnstone.domain.usage.usage import Tokens, TokenUsage, added, factor_of
from turnstone.domain.values.content import Content, Url
from turnstone.domain.values.frozen import Frozen
from turnstone.domain.values.moments import strictly_after


class StepCommon(Frozen):
    turn_id: str
    step_id: str
    started_at: datetime | None = None
    completed_at: datetime | None = None


class AnsweredBy(Frozen):
    """The provider that answered, and its name of the model."""

    provider_id: str
    model: str


class InferenceStep(StepCommon):
    """An answer of the model.

    Attributes:
        answered_by: set if there were several targets.
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
    """A shield's finding. Only one of level `error` stops the judged content."""

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
    """A turn for every reader. Field order is the order on the wire.

    Attributes:
        input_messages: of the Agents API user messages only; other APIs also start turns with other messages.
        failure: why it ended without an answer, otherwise omitted.
    """

    turn_id: str
    session_id: str
    input_messages: tuple[Message, ...]
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


class Verdict(Frozen):
    """A shield's verdict.

    Attributes:
        shield_id: the shield; empty in its own answer, before the runner of the shield adds it.
        violation: the finding, None without one.
        usage: the tokens used, where a model judged.
        model: that model.
    """

    shield_id: str = ""
    violation: SafetyViolation | None = None
    usage: TokenUsage | None = None
    model: str = ""


class StepTrace(Frozen):
    """Internal data of a step, next to its wire form.

    Attributes:
        deltas: the number of deltas in its stream.
        is_from_client: whether a client ran it.
        heartbeat: of a tool's step, whether the loop continues after it although its policy ends turns after calls.
        has_alert: of an inference, whether an alert of a nearly full context window follows it.
        input_shields: of a client's step, the shields that judge its answers before the model sees them.
        usage: the tokens used by a model.
        model: the agent's name of that model.
        shield_id: of a shield's step, the shield.
        touchpoint: of a shield's step, the judged part of the turn.
        call_id: of a shield's step about a tool, the call; None about the turn's memory.
        verdicts: of a tool's or a retrieval's step, the shields' findings about it; later steps of their own show them.
        query: of the first step about the turn's memory, its query; of a tool's step, one that a model wrote for it.
        attachments: of a tool's step, the files produced.
        reasoning: of an inference, the model's reasoning, in a turn that keeps details.
        cuts: of an inference, how its stream was cut, for an exact replay; see `turns/cuts`. None if not kept.
    """

    deltas: int = 0
    is_from_client: bool = False
    heartbeat: bool = False
    has_alert: bool = False
    input_shields: tuple[str, ...] = ()
    usage: TokenUsage | None = None
    model: str = ""
    shield_id: str | None = None
    touchpoint: Touchpoint | None = None
    call_id: str | None = None
    verdicts: tuple[Verdict, ...] = ()
    query: MemoryQuery | None = None
    attachments: tuple[Attachment, ...] = ()
    reasoning: str = ""
    cuts: str | None = None


class Summary(Frozen):
    """A model's summary of turns that do not fit its context window, sent instead of them.

    Attributes:
        first_order, last_order: the first and the last turn that it replaces, with all in between.
        usage: the tokens used.
        model: the model that wrote it.
    """

    text: str
    first_order: str
    last_order: str
    usage: TokenUsage
    model: str


class EarlierEnds(Frozen):
    """Earlier completions of a turn, before its client answered calls parsed from the model's text.

    Attributes:
        times: the number of completions.
        steps: the number of steps at the last one.
        spent: the tokens used by then, which its session was charged.
    """

    times: int
    steps: int
    spent: dict[str, Tokens]


class TurnState(TurnSettings):
    """The complete state of a turn between two transitions: stored, loaded and passed to the engine.

    Attributes:
        order: the turn's position in its session (the turn_id for turns we create).
        status: the turn's status.
        pending_calls: the calls that await an answer of the client.
        input_shields: the shields that judge its messages before the model sees them, as far as stored.
        traces: one per step of `turn.steps`.
        failure: why there is no answer.
        summary: the summary of earlier turns written at its end.
        earlier_ends: its earlier completions, None for a turn that was never opened again.
        takeovers: the number of consecutive takeovers by processes that ended before storing a step.
        steps_at_takeover: the number of steps at its last takeover.
        steps_at_first_takeover: the number of steps at its first takeover; later deltas may have been lost.
        is_lost: whether its content is lost, and this is a placeholder.
        token: wakes the supervisor that waits for the turn's client; removed when the turn continues.
        rev: revision of the record this was read from, 0 before it is stored.
    """

    turn: Turn
    order: str
    status: TurnStatus = TurnStatus.IN_PROGRESS
    pending_calls: tuple[ToolCall, ...] = ()
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

    @property
    def continues(self) -> bool:
        """Whether it begins with answers to calls of the turn before it, or with those calls."""
        return bool(self.carried_calls) or any(isinstance(m, ToolResponseMessage) for m in self.turn.input_messages)

    def check_content(self) -> None:
        """Raise ContentLost if the turn's content is lost."""
        if self.is_lost:
            raise ContentLost("turn", self.turn_id)

    @property
    def inference_count(self) -> int:
        """The number of model answers, over all resumes."""
        return sum(isinstance(step, InferenceStep) for step in self.turn.steps)

    @property
    def spent(self) -> dict[str, Tokens]:
        """The tokens of its finished inferences, and of a summary, by model."""
        return added(self.earlier_ends.spent, self.uncharged) if self.earlier_ends else self.uncharged

    @property
    def uncharged(self) -> dict[str, Tokens]:
        """The tokens used since its session was last charged for it, by model."""
        spent: dict[str, Tokens] = {}
        charged = self.earlier_ends.steps if self.earlier_ends else 0
        traces = self.traces[charged:]
        queries = (trace.query for trace in traces if trace.query is not None)
        for inference in (*traces, *queries, *((self.summary,) if self.summary else ())):
            if inference.usage is not None:
                spent = added(spent, {inference.model: inference.usage.spent})
        return spent

    def token_factor(self, otherwise: float) -> float:
        """Return the model's tokens per estimated token, as last reported."""
        return factor_of((trace.usage for trace in self.traces if trace.usage is not None), otherwise)

    @property
    def running_time(self) -> timedelta:
        """Duration of its finished steps, without waits for its client or for another process."""
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
        """The time of its last stored change."""
        steps = self.turn.steps
        return self.turn.completed_at or (steps[-1].completed_at if steps else None) or self.turn.started_at

    def next_moment(self, now: datetime) -> datetime:
        """Return now, moved after every stored time of the turn: clients sort its steps by time."""
        return strictly_after(now, self.last_moment)

    @property
    def takeovers_in_vain(self) -> int:
        """The number of consecutive takeovers since the last stored step."""
        return self.takeovers if len(self.turn.steps) == self.steps_at_takeover else 0

    def with_step(self, step: Step, trace: StepTrace | None = None) -> "TurnState":
        """Return the state with one more finished step, and its files."""
        trace = trace or StepTrace()
        changes: dict[str, Any] = {"steps": (*self.turn.steps, step)}
        if trace.attachments:
            changes["output_attachments"] = (*self.turn.output_attachments, *trace.attachments)
        turn = self.turn.model_copy(update=changes)
        return self.model_copy(update={"turn": turn, "traces": (*self.traces, trace)})

    def completed(self, output: CompletionMessage, at: datetime) -> "TurnState":
        """Return the state of the completed turn."""
        turn = self.turn.model_copy(update={"output_message": output, "completed_at": self.next_moment(at)})
        return self.model_copy(update={"turn": turn, "status": TurnStatus.COMPLETED, "pending_calls": ()})

    def reopened(self) -> "TurnState":
        """Return the state of the completed turn that continues; its tokens so far count as charged."""
        before = self.earlier_ends.times if self.earlier_ends else 0
        ends = EarlierEnds(times=before + 1, steps=len(self.turn.steps), spent=self.spent)
        turn = self.turn.model_copy(update={"completed_at": None})
        return self.model_copy(update={"turn": turn, "summary": None, "earlier_ends": ends})

    def ended_unanswered(self, status: TurnStatus, failure: Failure, at: datetime) -> "TurnState":
        """Return the state of the turn that ended without an answer; its finished steps stay."""
        output = self.turn.output_message if self.is_lost else silent_output("end_of_turn")
        ended = {"output_message": output, "completed_at": self.next_moment(at)}
        turn = self.turn.model_copy(update=ended)
        changes = {"turn": turn, "status": status, "failure": failure, "pending_calls": ()}
        return self.model_copy(update=changes).with_shown_failure()

    def with_shown_failure(self) -> "TurnState":
        """Return the state with the visible failure of its turn, if it ended without an answer."""
        status = UNANSWERED.get(self.status)
        if status is None:
            return self
        shown = turn_failure(self.turn_id, status, self.failure)
        return self.model_copy(update={"turn": self.turn.model_copy(update={"failure": shown})})


class NewTurn(TurnSettings):
    """A caller's request of a turn.

    Attributes:
        keeps_config: whether the turn keeps a snapshot of its configuration, because its agent may be changed.
    """

    messages: tuple[Message, ...]
    keeps_config: bool = False

    def answers_any(self, calls: Sequence[ToolCall]) -> bool:
        """Return whether it begins with answers to calls of the turn before it, instead of resuming that turn."""
        answered = {message.call_id for message in self.messages if isinstance(message, ToolResponseMessage)}
        return self.policy.at_client_calls == "end" and any(call.call_id in answered for call in calls)

    def opened(self, turn: Turn, config: AgentConfig) -> TurnState:
        """Return the state of the new turn, which runs with that configuration."""
        snapshot = config if self.keeps_config or self.config is not None else None
        shields = tuple(dict.fromkeys(config.input_shields))
        settings = {**self.settings, "config": snapshot}
        if snapshot is not None:
            settings["overrides"] = TurnOverrides.model_construct()
        # its parts are validated already; a second validation would repeat that of the overrides
        return TurnState.model_construct(turn=turn, order=turn.turn_id, input_shields=shields, **settings)


def newest_from_client(steps: Sequence[Step], traces: Sequence[StepTrace]) -> int | None:
    """Return the index after the client's last input: 0 for its messages; None once the model has answered."""
    for index in range(len(traces) - 1, -1, -1):
        if traces[index].is_from_client:
            return index + 1
        if isinstance(steps[index], InferenceStep):
            return None
    return 0


def silent_output(stop_reason: Literal["end_of_turn", "end_of_message"] = "end_of_message") -> CompletionMessage:
    """Return the output message of a turn without output yet."""
    return CompletionMessage(content="", stop_reason=stop_reason)
