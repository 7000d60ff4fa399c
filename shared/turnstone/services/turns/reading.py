"""Reads of stored turns, running or ended."""

from typing import NamedTuple

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import NotFound
from turnstone.domain.refs import TurnRef
from turnstone.domain.turns.turns import Step, Turn, TurnState
from turnstone.domain.values.content import Restore
from turnstone.ports.supervision import Supervisor
from turnstone.ports.system import Clock
from turnstone.services.access.access import AccessRules, check_session
from turnstone.services.turns.supervision import watch_if_due
from turnstone.store.sessions.turns import TurnStore


class TurnRead(NamedTuple):
    """A turn as read from the store.

    Attributes:
        restore: restores the long texts in JSON made of the state; None where the state has all its texts.
    """

    state: TurnState
    restore: Restore | None

    @property
    def turn(self) -> Turn:
        """The turn as the wire shows it."""
        return self.state.turn

    def step(self, step_id: str) -> Step:
        """Return one finished step. Raises NotFound."""
        for step in self.state.turn.steps:
            if step.step_id == step_id:
                return step
        raise NotFound("step", step_id)


class TurnReader:
    def __init__(self, turns: TurnStore, rules: AccessRules, supervisor: Supervisor, clock: Clock) -> None:
        self._turns = turns
        self._rules = rules
        self._supervisor = supervisor
        self._clock = clock

    def read(self, caller: Caller, ref: TurnRef) -> TurnRead:
        """Return the turn with its finished steps and its status.

        Raises:
            NotFound: the turn, its session or its agent.
            ContentLost: the turn's content, or the agent's.
        """
        visited = self._turns.visit(ref)
        check_session(self._rules, caller, visited.session, visited.agent_owner, self._clock.now())
        state, restore = visited.turn()
        watch_if_due(self._supervisor, self._clock, ref, visited.session)
        state.check_content()
        return TurnRead(state, restore)

    def search(self, caller: Caller, agent_id: str, turn_id: str) -> TurnRead:
        """Return the result of `read` for a turn in any session of the agent.

        Raises:
            NotFound: the turn, also where its session or agent is missing: no error names a session that the caller
                did not.
            ContentLost: the turn's content, or the agent's.
        """
        session_id = self._turns.find_session(caller.tenant, agent_id, turn_id)
        if session_id is None:
            raise NotFound("turn", turn_id)
        ref = TurnRef(tenant=caller.tenant, agent_id=agent_id, session_id=session_id, turn_id=turn_id)
        try:
            return self.read(caller, ref)
        except NotFound as missing:
            raise NotFound("turn", turn_id) from missing
