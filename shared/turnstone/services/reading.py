"""Turns as they are stored, while they run and afterwards."""

from turnstone.domain.caller import Caller
from turnstone.domain.errors import NotFound
from turnstone.domain.refs import TurnRef
from turnstone.domain.turns import Step, Turn, TurnState
from turnstone.ports import Clock, Supervisor
from turnstone.services.access import AccessRules, check_session
from turnstone.services.attention import attend_if_due
from turnstone.store.turns import TurnStore


class TurnReader:
    def __init__(self, turns: TurnStore, rules: AccessRules, supervisor: Supervisor, clock: Clock) -> None:
        self._turns = turns
        self._rules = rules
        self._supervisor = supervisor
        self._clock = clock

    def read(self, caller: Caller, ref: TurnRef) -> TurnState:
        """Return the turn with every step that has finished, and where its life stands.

        Raises:
            NotFound: the turn, its session or its agent.
            ContentLost: the turn's content, or the agent's.
        """
        session, state, agent_stamp = self._turns.visit(ref)
        check_session(self._rules, caller, session, agent_stamp, self._clock.now())
        attend_if_due(self._supervisor, self._clock, ref, session)
        state.check_content()
        return state

    def locate(self, tenant: str, agent_id: str, turn_id: str) -> TurnRef:
        """Return where the turn is, looked for in all sessions of the agent; who may see it is for `read` to say.

        Raises:
            NotFound: there is no such turn, as far as those sessions are there.
        """
        session_id = self._turns.session_of(tenant, agent_id, turn_id)
        if session_id is None:
            raise NotFound("turn", turn_id)
        return TurnRef(tenant=tenant, agent_id=agent_id, session_id=session_id, turn_id=turn_id)

    def get(self, caller: Caller, ref: TurnRef) -> Turn:
        """Return the turn as the wire shows it. Raises NotFound."""
        return self.read(caller, ref).turn

    def get_step(self, caller: Caller, ref: TurnRef, step_id: str) -> Step:
        """Return one finished step. Raises NotFound."""
        for step in self.get(caller, ref).steps:
            if step.step_id == step_id:
                return step
        raise NotFound("step", step_id)
