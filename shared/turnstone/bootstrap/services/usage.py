"""The services that report tokens: those spent, and those of a session's context."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnstone.bootstrap.services.foundation import Foundation
    from turnstone.bootstrap.services.registries import Registries
    from turnstone.bootstrap.services.turns import TurnServices
    from turnstone.services.sessions.session_context import SessionContexts
    from turnstone.services.usage.usage import Usage


class UsageServices:
    """The services that report tokens."""

    def __init__(self, foundation: Foundation, registries: Registries, turns: TurnServices) -> None:
        self._foundation = foundation
        self._registries = registries
        self._turns = turns

    @cached_property
    def usage(self) -> Usage:
        from turnstone.services.usage.usage import Usage, UsageDeps
        from turnstone.store.usage.usage import UsageStore

        foundation = self._foundation
        deps = UsageDeps(
            UsageStore(foundation.ports.store),
            foundation.session_store,
            foundation.rules,
            self._registries.routing.route,
            foundation.ports.clock,
        )
        return Usage(deps)

    @cached_property
    def contexts(self) -> SessionContexts:
        from turnstone.services.sessions.session_context import SessionContexts

        foundation = self._foundation
        return SessionContexts(
            self._turns.turn_store,
            foundation.rules,
            self._registries.routing.route,
            foundation.ports.clock,
            foundation.settings.context_tokens,
        )
