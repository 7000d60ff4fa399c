"""Edits of Letta's messages: the turn and its entry in the context of later turns are stored again, in one write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from turnstone.domain.errors import InvalidRequest, NotFound, TurnRunning
from turnstone.domain.letta.agents import LettaAgent, main_session
from turnstone.domain.letta.edits import Edit, edited
from turnstone.domain.messages.messages import CompletionMessage
from turnstone.domain.refs import SessionRef
from turnstone.domain.sessions.context import entry_of
from turnstone.domain.sessions.sessions import LockState
from turnstone.domain.turns.turns import InferenceStep, TurnState
from turnstone.engine.loop_rules import output_of
from turnstone.services.access.access import check_session
from turnstone.store.layout.contention import TRIES_OF_TURNS, retried
from turnstone.store.sessions.log_entries import segments_with
from turnstone.store.sessions.turns import Change, TurnStore

if TYPE_CHECKING:
    from turnstone.domain.access.caller import Caller
    from turnstone.ports.system import Clock
    from turnstone.services.access.access import AccessRules
    from turnstone.services.letta.agents import LettaAgents

SHIELDED = "the agent's shields judge the messages of a run; an edited message would not be judged"


@dataclass(frozen=True, slots=True)
class LettaEditingDeps:
    """Dependencies of the edits of Letta's messages.

    Attributes:
        read_tokens: the tokens of the log that are read at once, in search of a turn.
    """

    agents: LettaAgents
    turns: TurnStore
    rules: AccessRules
    clock: Clock
    read_tokens: int


class EditedTurn:
    """The agent and its turn after an edit."""

    def __init__(self, agent: LettaAgent, state: TurnState, at: datetime) -> None:
        self.agent = agent
        self.state = state
        self.at = at


class LettaEditing:
    def __init__(self, deps: LettaEditingDeps) -> None:
        self._deps = deps

    def edit(
        self, caller: Caller, agent_id: str, message: str, turn_id: str, edit_in: Callable[[TurnState], Edit]
    ) -> EditedTurn:
        """Change a message; the next turn has the changed one.

        Args:
            edit_in: returns the edit of the turn. Raises NotFound, InvalidRequest.

        Raises:
            NotFound, ContentLost: agent or message.
            Forbidden: the caller may not change the agent.
            InvalidRequest: shields judge the agent's messages.
            TurnRunning: a turn of the agent runs, or waits for its client.
        """
        deps = self._deps
        deps.agents.check_change(caller, agent_id)
        agent = deps.agents.read(caller, agent_id)
        if agent.config.input_shields or agent.config.output_shields:
            raise InvalidRequest(SHIELDED)
        session_id = main_session(agent_id, agent.fields.generation)
        ref = SessionRef(tenant=caller.tenant, agent_id=agent_id, session_id=session_id)

        def act() -> TurnState:
            try:
                session, state = deps.turns.load(ref.turn(turn_id))
                check_session(deps.rules, caller, session, session.stamp, deps.clock.now())
            except NotFound as missing:
                raise NotFound("message", message) from missing
            state.check_content()
            edit = edit_in(state)
            if session.lock.state is not LockState.IDLE:
                raise TurnRunning(str(session.lock.order))
            changed = _with_output(state, edited(state, edit))
            segments = segments_with(deps.turns, ref, entry_of(changed), deps.read_tokens)
            deps.turns.commit(ref, Change(session, (changed,), segments))
            return changed

        changed = retried(act, "the messages change too fast, try again", TRIES_OF_TURNS)
        return EditedTurn(agent, changed, deps.clock.now())


def _with_output(before: TurnState, after: TurnState) -> TurnState:
    """Return the edited turn, whose output message has the edited answer if it had the answer before."""
    output = before.turn.output_message
    earlier, later = _answer_in(before), _answer_in(after)
    if earlier is None or later is None or output.content != output_of(before, earlier, output.stop_reason).content:
        return after
    content = output_of(after, later, output.stop_reason).content
    turn = after.turn.model_copy(update={"output_message": output.model_copy(update={"content": content})})
    return after.model_copy(update={"turn": turn})


def _answer_in(state: TurnState) -> CompletionMessage | None:
    answers = [step.model_response for step in state.turn.steps if isinstance(step, InferenceStep)]
    return answers[-1] if answers else None
