"""Import an agent with its messages: its turns are stored first, and the write that creates it makes them visible.

That write also ends the job that removes the turns, which is stored with the first: none stay without an agent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from turnstone.domain.access.access import owner_of
from turnstone.domain.errors import ContentLost, StoreUnavailable
from turnstone.domain.letta.agents import MAIN, LettaAgent, NewLettaAgent, main_session
from turnstone.domain.letta.histories import Imported, PastInference, PastTurn
from turnstone.domain.messages.messages import CompletionMessage
from turnstone.domain.refs import SessionRef
from turnstone.domain.sessions.context import rebuilt
from turnstone.domain.sessions.sessions import Session
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.turns import (
    InferenceStep,
    StepTrace,
    ToolExecutionStep,
    Turn,
    TurnState,
    silent_output,
)
from turnstone.domain.values.moments import strictly_after
from turnstone.engine.loop_rules import output_of
from turnstone.ports.records import MAX_OPERATIONS, Delete, Operation, Put, RevIs
from turnstone.store.cleanup.jobs import put_job
from turnstone.store.sessions.session_records import put_segment, put_session
from turnstone.store.sessions.sessions import creation, job_of
from turnstone.store.sessions.turn_records import put_turn

if TYPE_CHECKING:
    from turnstone.domain.access.caller import Caller
    from turnstone.domain.turns.loop_policies import LoopPolicy
    from turnstone.ports.storage import RangeStore
    from turnstone.ports.system import Clock, IdGenerator
    from turnstone.services.letta.agents import LettaAgents
    from turnstone.services.letta.tools import CustomTools

AT_ONCE = 25  # records of a write
AT_ONCE_BYTES = 3_000_000  # of their bodies: DynamoDB refuses a transaction of more than 4 MB
REMOVED_AFTER = timedelta(hours=1)  # longer than any request


@dataclass(frozen=True, slots=True)
class LettaImportDeps:
    """Dependencies of imports; few files have tools of Python."""

    agents: LettaAgents
    tools: Callable[[], CustomTools]
    records: RangeStore
    clock: Clock
    ids: IdGenerator


class LettaImporting:
    def __init__(self, deps: LettaImportDeps) -> None:
        self._deps = deps

    @property
    def now(self) -> datetime:
        """The time, after which no imported message is."""
        return self._deps.clock.now()

    def create(self, caller: Caller, imported: Imported, attempt: Attempt) -> LettaAgent:
        """Return the new agent with its turns. For the errors see `LettaAgents.create` and `CustomTools.upsert`."""
        new, past = imported.new, imported.past
        for tool in imported.tools:
            of_tool = Attempt(fingerprint=attempt.fingerprint)
            self._deps.tools().upsert(caller, tool, of_tool, replaces=imported.replaces_tools)
        stored: list[Put] = []

        def beside(agent_id: str) -> Sequence[Operation]:
            return self._stored(caller, agent_id, new, past, stored)

        agent: LettaAgent | None = None
        is_unclear = False
        try:
            agent = self._deps.agents.create(caller, new, attempt, beside if past else None)
            return agent
        except (StoreUnavailable, ContentLost):
            is_unclear = True  # the agent may be created all the same; if not, the job removes the turns
            raise
        finally:
            is_theirs = agent is not None and bool(stored) and _is_of(stored, agent)
            if not is_unclear and not is_theirs:  # refused, or created by an earlier attempt
                self._remove(stored)

    def _stored(
        self, caller: Caller, agent_id: str, new: NewLettaAgent, past: Sequence[PastTurn], stored: list[Put]
    ) -> Sequence[Operation]:
        """Store the turns, and return the writes by which they become those of the agent's session."""
        now = self._deps.clock.now()
        ref = SessionRef(tenant=caller.tenant, agent_id=agent_id, session_id=main_session(agent_id, 0))
        states = self._states(ref, new.fields.policy, new.config.model, past)
        session = Session(
            agent_id=agent_id,
            session_id=ref.session_id,
            session_name=MAIN,
            started_at=now,
            order=self._deps.ids.order_key(now, None),
            last_order=states[-1].order,
            stamp=owner_of(caller),
        )
        removing = put_job(job_of("clean_session", ref, session, now).again_at(now + REMOVED_AFTER))
        puts = [removing, *(put_turn(ref, state) for state in states)]
        puts += [put_segment(ref, segment) for segment in rebuilt(states)]
        for part in _parts(puts):
            stored += part
            self._deps.records.write(part)
        _, *listed = creation(ref, session, now)  # the agent is created by the same write
        return (put_session(ref, session), *listed, Delete(removing.key, (RevIs(1),)))

    def _states(
        self, ref: SessionRef, policy: LoopPolicy, model: str, past: Sequence[PastTurn]
    ) -> tuple[TurnState, ...]:
        states: list[TurnState] = []
        for each in past:
            order = self._deps.ids.order_key(each.at, states[-1].order if states else None)
            states.append(self._state(ref, order, policy, model, each))
        return tuple(states)

    def _state(self, ref: SessionRef, order: str, policy: LoopPolicy, model: str, past: PastTurn) -> TurnState:
        turn = Turn(
            turn_id=order,
            session_id=ref.session_id,
            input_messages=past.messages,
            output_message=silent_output(),
            started_at=past.at,
        )
        state = TurnState(turn=turn, order=order, policy=policy, origin="letta")
        answer = CompletionMessage(content="", stop_reason="end_of_turn")
        for index, step in enumerate(past.steps):
            step_id = self._deps.ids.new_id()
            started_at = state.last_moment
            at = max(step.at, started_at)
            if isinstance(step, PastInference):
                answer = CompletionMessage(content=step.text, stop_reason="end_of_turn", tool_calls=step.calls)
                inference = InferenceStep(
                    turn_id=order, step_id=step_id, started_at=started_at, completed_at=at, model_response=answer
                )
                state = state.with_step(inference, StepTrace(model=model))
                continue
            continues = any(isinstance(later, PastInference) for later in past.steps[index + 1 :])
            answers = ToolExecutionStep(
                turn_id=order,
                step_id=step_id,
                started_at=started_at,
                completed_at=at,
                tool_calls=step.calls,
                tool_responses=step.answers,
            )
            state = state.with_step(answers, StepTrace(heartbeat=continues))
        return state.completed(output_of(state, answer, "end_of_turn"), _end_of(state))

    def _remove(self, stored: Sequence[Put]) -> None:
        deletes = [Delete(put.key) for put in reversed(stored)]  # the job last
        for first in range(0, len(deletes), MAX_OPERATIONS):
            self._deps.records.write(deletes[first : first + MAX_OPERATIONS])


def _parts(puts: Sequence[Put]) -> Iterator[list[Put]]:
    """Yield the puts in order, in parts that one write takes; a body over the limit is stored outside of its record."""
    part: list[Put] = []
    size_bytes = 0
    for put in puts:
        if part and (len(part) == AT_ONCE or size_bytes + len(put.body) > AT_ONCE_BYTES):
            yield part
            part, size_bytes = [], 0
        part.append(put)
        size_bytes += len(put.body)
    yield part


def _end_of(state: TurnState) -> datetime:
    return strictly_after(state.last_moment, state.turn.started_at)


def _is_of(stored: Sequence[Put], agent: LettaAgent) -> bool:
    return agent.agent_id in stored[-1].key.pk
