"""The services of responses, over those of turns."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnstone.bootstrap.services.cleanup import CleanupServices
    from turnstone.bootstrap.services.foundation import Foundation
    from turnstone.bootstrap.services.turns import TurnServices
    from turnstone.services.responses.responses import Responses


class ResponseServices:
    """The services of responses; those of turns are built for changes, not for lists."""

    def __init__(
        self, foundation: Foundation, turns: Callable[[], TurnServices], cleanup: Callable[[], CleanupServices]
    ) -> None:
        self._foundation = foundation
        self._turns = turns
        self._cleanup = cleanup

    @cached_property
    def responses(self) -> Responses:
        from turnstone.services.responses.responses import ResponseDeps, Responses
        from turnstone.store.responses.responses import ResponseStore
        from turnstone.store.sessions.turns import TurnStore

        ports, settings = self._foundation.ports, self._foundation.settings
        return Responses(
            ResponseDeps(
                turns=self._turns().turns,
                turn_store=TurnStore(ports.store),  # items are cut out of whole texts
                store=ResponseStore(ports.store),
                agents=self._foundation.agent_store,
                rules=self._foundation.rules,
                clock=ports.clock,
                ids=ports.ids,
                kept_for_s=settings.responses_ttl_s,
                ephemeral_for_s=settings.ephemeral_ttl_s,
                deleting=lambda: self._cleanup().deleting,
            )
        )
