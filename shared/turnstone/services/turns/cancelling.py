"""Cancel a turn of any process: its finished steps stay, its session becomes free."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from turnstone.domain.access.caller import Caller
from turnstone.domain.errors import NotFound, TurnEnded
from turnstone.domain.refs import TurnRef
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.turns.turns import TurnState, TurnStatus
from turnstone.ports.supervision import Supervisor
from turnstone.ports.system import Clock
from turnstone.services.access.access import AccessRules, check_session
from turnstone.services.streams.broadcast import Broadcasts
from turnstone.services.streams.replay import numbered
from turnstone.services.turns.leases import Lease, LeaseKeeper
from turnstone.services.turns.supervision import wake
from turnstone.services.turns.transitions import cancelled, closed
from turnstone.store.layout.contention import TRIES_OF_TURNS, retried
from turnstone.store.layout.idempotency import answer_in, put_remembered
from turnstone.store.sessions.turns import SessionView, TurnStore

log = logging.getLogger(__name__)


class CancellingDeps(NamedTuple):
    """Dependencies: the store of the turn, and what stops its run and notifies its subscribers in this process."""

    turns: TurnStore
    supervisor: Supervisor
    clock: Clock
    leases: LeaseKeeper
    broadcasts: Broadcasts


class Cancelling:
    def __init__(self, deps: CancellingDeps, rules: AccessRules) -> None:
        self._deps = deps
        self._rules = rules

    def cancel(self, caller: Caller, ref: TurnRef, attempt: Attempt) -> TurnState:
        """Return the cancelled turn, also one that an earlier request cancelled.

        The stored status decides: an overdue turn that no request has read since its deadline can still be cancelled.

        Raises:
            NotFound: the turn, its session or its agent.
            TurnEnded: it has ended otherwise.
        """

        def check(view: SessionView) -> None:
            check_session(self._rules, caller, view.session, view.agent_owner, self._deps.clock.now())

        return self._settled(ref, attempt, check)

    def cancel_for_operator(self, ref: TurnRef, attempt: Attempt) -> TurnState:
        """Cancel as `cancel` does, without a check of rights. Raises the same errors."""
        return self._settled(ref, attempt, lambda _: None)

    def _settled(self, ref: TurnRef, attempt: Attempt, check: Callable[[SessionView], None]) -> TurnState:
        def act() -> TurnState:
            view = self._deps.turns.view(ref, 0, attempt, ref.turn_id)
            check(view)
            view.check_turn(ref.turn_id)
            answer_in(view.remembered, attempt, self._deps.clock.now())
            return self._cancelled(ref, view, attempt)

        return retried(act, "the turn changes too fast, try again", TRIES_OF_TURNS)

    def _cancelled(self, ref: TurnRef, view: SessionView, attempt: Attempt) -> TurnState:
        """End the turn; raises Conflict if it has changed since the view."""
        state = view.state
        if state is None:
            raise NotFound("turn", ref.turn_id)
        if not state.status.is_terminal:
            # after the view: a step stored between the two reads moves the session's revision, and the write conflicts
            _, state = self._deps.turns.load(ref)
        if state.status is TurnStatus.CANCELLED:
            return state
        if state.status.is_terminal:
            raise TurnEnded(state.turn_id, state.status)
        now = self._deps.clock.now()
        ending = closed(view.session, cancelled(state, now), view.open_segment)
        remembered = put_remembered(ref, attempt, {"turn_id": state.turn_id}, now, view.remembered)
        lease = self._deps.leases.find(ref)
        with _in_hand(lease):  # so that a run that notices the loss of its lease publishes only after this
            committed = self._deps.turns.commit(ref, ending._replace(remembered=remembered)).turns[0]
            if lease is not None:
                lease.lose()
            self._publish_end(ref, committed)
        wake(self._deps.supervisor, state.token)
        log.info("turn %s is cancelled", ref.turn_id)
        return committed

    def _publish_end(self, ref: TurnRef, state: TurnState) -> None:
        broadcast = self._deps.broadcasts.find(ref)
        if broadcast is not None:
            self._deps.broadcasts.end(broadcast, *numbered(state)[-1:])


def _in_hand(lease: Lease | None) -> AbstractContextManager[object]:
    return nullcontext() if lease is None else lease.in_hand
