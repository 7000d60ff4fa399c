"""Sessions with a past: as many plain turns as requested, written through the project's own stores in large writes."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random

from tests.benchmarks.prose import prose
from turnstone.domain.access.access import owner_of
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.agents.agents import Agent, AgentConfig
from turnstone.domain.messages.messages import CompletionMessage, UserMessage
from turnstone.domain.refs import SessionRef
from turnstone.domain.sessions.context import rebuilt
from turnstone.domain.sessions.sessions import Session, SessionLock
from turnstone.domain.tools.tools import ToolDef
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.turns import InferenceStep, StepTrace, Turn, TurnState
from turnstone.domain.usage.usage import TokenUsage
from turnstone.domain.values.ids import milliseconds, uuid7
from turnstone.ports.storage import RangeStore
from turnstone.store.agents.agents import AgentStore, StoredAgent
from turnstone.store.sessions.sessions import SessionStore
from turnstone.store.sessions.turns import Change, TurnStore

TENANT = "local"
QUESTION_CHARACTERS = 500
ANSWER_CHARACTERS = 2_000
TURN_TAKES = timedelta(seconds=3)
BEGAN_AT = datetime(2026, 1, 1, tzinfo=UTC)
CONFIG = AgentConfig(
    model="scripted",
    instructions="You are a helpful assistant. Be brief.",
    toolgroups=("builtin::clock",),
    client_tools=(ToolDef(name="get_weather", description="Weather of a city"),),
    enable_session_persistence=True,
)
# A write has at most 100 operations: the header, so many turns, and at most as many segments.
TURNS_IN_A_WRITE = 49
# Texts come round again long after a segment is full, so that they don't compress better than different ones.
DIFFERENT_TEXTS = 101


def question(number: int, characters: int = QUESTION_CHARACTERS) -> str:
    """Return the text of a turn's question, by default as long as the budget of a plain turn allows."""
    return _text(number % DIFFERENT_TEXTS, characters)


def answer(number: int, characters: int = ANSWER_CHARACTERS) -> str:
    """Return the text of a turn's answer, by default as long as the budget of a plain turn allows."""
    return _text(DIFFERENT_TEXTS + number % DIFFERENT_TEXTS, characters)


_text = cache(prose)


@dataclass(frozen=True, slots=True)
class Past:
    """Builds agents and sessions in a store. The same seed gives the same ids.

    Attributes:
        answer_of: the text of the answer of each turn, by its number.
        question_characters: how long the questions are.
    """

    store: RangeStore
    random: Random
    answer_of: Callable[[int], str] = answer
    question_characters: int = QUESTION_CHARACTERS

    def agent(self, model: str) -> str:
        """Store an agent of that model and return its id."""
        config = CONFIG.model_copy(update={"model": model})
        agent = Agent(agent_id=self._id(BEGAN_AT), agent_config=config, created_at=BEGAN_AT)
        stored = StoredAgent(agent, self._id(BEGAN_AT), owner_of(LOCAL_CALLER))
        return AgentStore(self.store).create(TENANT, stored, self._attempt(), BEGAN_AT)

    def session(self, agent_id: str, turns: int, session_id: str | None = None) -> SessionRef:
        """Store a session with so many completed turns and return where it is."""
        order = self._id(BEGAN_AT)
        session = Session(
            agent_id=agent_id,
            session_id=session_id or self._id(BEGAN_AT),
            session_name="past",
            started_at=BEGAN_AT,
            order=order,
            stamp=owner_of(LOCAL_CALLER),
        )
        ref = SessionRef(tenant=TENANT, agent_id=agent_id, session_id=session.session_id)
        SessionStore(self.store).create(TENANT, session, self._attempt(), BEGAN_AT)
        self._fill(ref, session.model_copy(update={"rev": 1}), turns)
        return ref

    def _fill(self, ref: SessionRef, session: Session, turns: int) -> None:
        store = TurnStore(self.store)
        states = [self.turn(ref, number) for number in range(turns)]
        log = rebuilt(states)
        for first in range(0, turns, TURNS_IN_A_WRITE):
            part = slice(first, first + TURNS_IN_A_WRITE)
            newest = states[part][-1]
            changes = {
                "lock": SessionLock(fence=first + len(states[part])),
                "last_order": newest.order,
                "last_request": self._attempt().fingerprint,
            }
            change = Change(session.model_copy(update=changes), tuple(states[part]), log[part])
            session = store.commit(ref, change).session

    def turn(self, ref: SessionRef, number: int) -> TurnState:
        """Return a completed turn, to be stored; the numbers give the order."""
        started_at = BEGAN_AT + number * TURN_TAKES
        turn_id = self._id(started_at)
        response = CompletionMessage(content=self.answer_of(number), stop_reason="end_of_turn")
        step = InferenceStep(
            turn_id=turn_id,
            step_id=self._id(started_at),
            started_at=started_at,
            completed_at=started_at + TURN_TAKES / 2,
            model_response=response,
        )
        turn = Turn(
            turn_id=turn_id,
            session_id=ref.session_id,
            input_messages=(UserMessage(content=question(number, self.question_characters)),),
            output_message=response,
            started_at=started_at,
        )
        usage = TokenUsage(prompt_tokens=4_000, completion_tokens=500, total_tokens=4_500)
        running = TurnState(turn=turn, order=turn_id).with_step(step, StepTrace(deltas=400, usage=usage))
        return running.completed(response, started_at + TURN_TAKES / 2)

    def _id(self, at: datetime) -> str:
        return uuid7(milliseconds(at), self.random.randbytes(10))

    def _attempt(self) -> Attempt:
        return Attempt(fingerprint=self.random.randbytes(16).hex())
