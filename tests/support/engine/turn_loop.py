"""The engine over doubles, `Engine`, with a journal of events and stored steps."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count

from tests.fakes.models.scripted import USAGE, Scripted, ScriptedInference, ScriptedTools, call
from tests.fakes.shields import InOrder, Judges
from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import ToolFailed
from turnstone.domain.messages.messages import Message, UserMessage
from turnstone.domain.sessions.context import tokens_of
from turnstone.domain.sessions.context_budget import History
from turnstone.domain.tools.tool_runs import ToolResult
from turnstone.domain.tools.tools import ToolCall, ToolDef, ToolResponse, call_from_json
from turnstone.domain.turns.events import (
    StepCompleted,
    StepProgressed,
    StepStarted,
    TextDelta,
    ToolCallDelta,
    TurnEvent,
)
from turnstone.domain.turns.turns import (
    Step,
    StepTrace,
    ToolExecutionStep,
    Turn,
    TurnState,
    silent_output,
)
from turnstone.domain.usage.usage import TokenUsage
from turnstone.domain.values.cancellation import StopSignal
from turnstone.engine.measuring import prompt_tokens_of
from turnstone.engine.steps import AwaitClientTools, Blocked, EngineDeps, Finish, NextStep, RunAgain
from turnstone.engine.tool_plan import build_offer
from turnstone.engine.turn import advance
from turnstone.ports.memory import Retrieval

MOST_MOVES = 30
NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
CONFIG = AgentConfig(model="m", instructions="Be brief.", toolgroups=("shop",), client_tools=(ToolDef(name="ask"),))
BOTH_GROUPS = CONFIG.model_copy(update={"toolgroups": ("shop", "weather")})
PRICE = call("price", "c1", item="tea")
STOCK = call("stock", "c2", item="tea")
CLIENT_CALL = call("ask", "c3", question="how many?")
RAIN = call("rain", "c4")
UNKNOWN = call("fly", "c5")
UNPARSABLE = call_from_json("c6", "price", '{"item": "te')


@dataclass(frozen=True)
class Saved:
    """The newest step of this state was stored."""

    state: TurnState

    @property
    def step_details(self) -> Step:
        return self.state.turn.steps[-1]


class StandingClock:
    def now(self) -> datetime:
        return NOW


class CountingIds:
    def __init__(self) -> None:
        self._numbers = count(1)

    def new_id(self) -> str:
        return f"id-{next(self._numbers)}"

    def order_key(self, at: datetime, previous: str | None) -> str:
        return self.new_id()


class Engine:
    """The engine over fakes, and the recorder of its steps: `journal` has stored steps and events in order."""

    def __init__(
        self,
        *script: Scripted,
        config: AgentConfig = CONFIG,
        history: Sequence[Message] = (),
        tools: ScriptedTools | None = None,
        shields: Mapping[str, Judges] | None = None,
        clock: StandingClock | None = None,
        retrieval: Retrieval | None = None,
        max_turn_tokens: int | None = None,
    ) -> None:
        self.shields = InOrder(shields or {})
        self.journal: list[TurnEvent | Saved] = []
        self.inference = ScriptedInference(script)
        self.tools = tools or shop()
        self.deps = EngineDeps(
            config=config,
            offer=build_offer(config, self.tools.offered(config.toolgroups)),
            history=History(tuple(history), tokens_of(history)),
            inference=self.inference,
            tools=self.tools,
            shields=self.shields,
            recorder=self,
            clock=clock or StandingClock(),
            ids=CountingIds(),
            stop=StopSignal(),
            retrieval=retrieval,
            max_turn_tokens=max_turn_tokens,
        )

    @property
    def emitted(self) -> list[TurnEvent]:
        return [entry for entry in self.journal if not isinstance(entry, Saved)]

    @property
    def stored(self) -> TurnState:
        """Return the newest state of which every step is stored, as another process would read it."""
        return read_again([entry.state for entry in self.journal if isinstance(entry, Saved)][-1])

    def save_step(self, state: TurnState) -> None:
        self.journal.append(Saved(state))

    def run(self, state: TurnState) -> AwaitClientTools | Blocked | Finish:
        """Move the turn on until it ends or pauses."""
        following: NextStep = RunAgain(state)
        for _ in range(MOST_MOVES):
            if not isinstance(following, RunAgain):
                return following
            following = self.move(following.state)
        raise AssertionError(f"the turn has not ended after {MOST_MOVES} moves")

    def move(self, state: TurnState) -> NextStep:
        move = advance(state, self.deps)
        while True:
            try:
                self.journal.append(next(move))
            except StopIteration as stop:
                return stop.value


def shop() -> ScriptedTools:
    def stock(_: object) -> ToolResult:
        raise ToolFailed("sold out")

    price = ToolResult("3 coins", {"currency": "coin"})
    return ScriptedTools({"shop": {"price": lambda _: price, "stock": stock}, "weather": {"rain": lambda _: "none"}})


def counted(engine: Engine) -> TokenUsage:
    """Return the stored token usage of the scripted model's first answer."""
    estimated = prompt_tokens_of(engine.inference.requests[0])
    return USAGE.model_copy(update={"estimated_prompt_tokens": estimated})


def new_turn(text: str = "hello", turn_id: str = "t1") -> TurnState:
    question, silence = UserMessage(content=text), silent_output()
    turn = Turn(turn_id=turn_id, session_id="s1", input_messages=(question,), output_message=silence, started_at=NOW)
    return TurnState(turn=turn, order=turn_id)


def read_again(state: TurnState) -> TurnState:
    return TurnState.model_validate_json(state.model_dump_json())


def answered_by_client(state: TurnState, *answered: ToolCall) -> TurnState:
    """Return the stored state of the turn whose client has answered these calls."""
    responses = tuple(ToolResponse(call_id=c.call_id, tool_name=c.tool_name, content="two") for c in answered)
    step = ToolExecutionStep(turn_id="t1", step_id="client", tool_calls=answered, tool_responses=responses)
    return read_again(state.with_step(step, StepTrace(is_from_client=True)))


def outline(journal: Iterable[TurnEvent | Saved]) -> list[str]:
    return [line_of(entry) for entry in journal]


def line_of(entry: TurnEvent | Saved) -> str:
    """Return the entry in the contract's letters: S step_start, P step_progress, C step_complete."""
    match entry:
        case Saved():
            return f"saved {entry.step_details.step_type}"
        case StepStarted(step_type=step_type):
            return f"S {step_type}"
        case StepProgressed(delta=TextDelta(text=text)):
            return f"P {text}"
        case StepProgressed(delta=ToolCallDelta(tool_call=ToolCall(call_id=call_id), parse_status=status)):
            return f"P {call_id} {status}"
        case StepCompleted(step_type=step_type):
            return f"C {step_type}"
        case _:
            raise AssertionError(f"the engine tells no {entry!r}")


INFERENCE_KEPT = ["saved inference", "C inference"]
TOOL_KEPT = ["saved tool_execution", "C tool_execution"]
