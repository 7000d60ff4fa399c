"""The part of a session's earlier turns that its next turn sends to the model."""

from collections.abc import Sequence
from dataclasses import dataclass

from turnstone.domain.access.caller import Caller
from turnstone.domain.models.routing import RouteOf, resolved_route
from turnstone.domain.refs import SessionRef
from turnstone.domain.sessions.context import (
    SEALED_TOKENS,
    Entry,
    living,
    newest_entries,
    newest_of_turns,
    summary_tokens,
    tokens_of,
)
from turnstone.domain.sessions.context_budget import budget_tokens
from turnstone.domain.sessions.session_context import SessionContext, SummaryInContext, TurnInContext
from turnstone.ports.system import Clock
from turnstone.services.access.access import AccessRules, check_session
from turnstone.store.sessions.turns import TurnStore


@dataclass(frozen=True, slots=True)
class SessionContexts:
    """Attributes: see RunnerDeps."""

    turns: TurnStore
    rules: AccessRules
    route_of: RouteOf
    clock: Clock
    context_tokens: int

    def read(self, caller: Caller, ref: SessionRef, *, has_alerts: bool = False) -> SessionContext:
        """Return the context of the next turn; see `budget_tokens`. Raises NotFound."""
        view = self.turns.view(ref, self.context_tokens + 2 * SEALED_TOKENS)
        check_session(self.rules, caller, view.session, view.agent_owner, self.clock.now())
        config = view.agent.agent_config
        route = resolved_route(self.route_of, ref.tenant, config.model)
        factor = view.session.token_factor
        budget = budget_tokens(route, config, self.context_tokens, factor, has_alerts=has_alerts)
        segments = view.segments
        if route.context_tokens is not None and route.context_tokens > self.context_tokens:
            segments = self.turns.widened(ref, segments, budget)
        summary, entries = living(segments)
        if summary_tokens(summary) > budget:
            summary = None
        turns = self._turns(ref, entries, budget - summary_tokens(summary)) if budget > 0 else ()
        return SessionContext(
            window_tokens=route.context_tokens,
            budget_tokens=budget,
            token_factor=factor,
            summary=summary
            and SummaryInContext(
                text=summary.text,
                first_turn_id=summary.first_order,
                last_turn_id=summary.last_order,
                model_id=summary.model,
            ),
            turns=turns,
        )

    def _turns(self, ref: SessionRef, entries: Sequence[Entry], budget: int) -> tuple[TurnInContext, ...]:
        """Return the turns that fit; of a newest turn that exceeds the budget, the part that is sent, if any."""
        chosen, left = newest_entries(entries, budget)
        if left >= 0:
            return tuple(TurnInContext(turn_id=entry.order, tokens=entry.tokens) for entry in chosen)
        sent = newest_of_turns(self.turns.messages_of(ref, chosen), budget)
        found = zip(chosen, sent, strict=True)
        return tuple(TurnInContext(turn_id=entry.order, tokens=tokens_of(part)) for entry, part in found if part)
