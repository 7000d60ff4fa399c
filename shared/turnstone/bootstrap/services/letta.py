"""The services of Letta's API; those of turns are built for messages, not for agents."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnstone.bootstrap.services.agents import AgentServices
    from turnstone.bootstrap.services.foundation import Foundation
    from turnstone.bootstrap.services.turns import TurnServices
    from turnstone.services.letta.agents import LettaAgents
    from turnstone.services.letta.messages import LettaMessages

PATIENCE_S, PATIENCE_ON_LAMBDA_S = 30.0, 25.0


class LettaServices:
    """The services of Letta's API."""

    def __init__(
        self, foundation: Foundation, agents: Callable[[], AgentServices], turns: Callable[[], TurnServices]
    ) -> None:
        self._foundation = foundation
        self._agents = agents
        self._turns = turns

    @cached_property
    def agents(self) -> LettaAgents:
        from turnstone.services.letta.agents import LettaAgentDeps, LettaAgents
        from turnstone.store.agents.blocks import BlockStore
        from turnstone.store.letta.agents import LettaAgentStore

        ports, services = self._foundation.ports, self._agents()
        return LettaAgents(
            LettaAgentDeps(
                agents=self._foundation.agent_store,
                store=LettaAgentStore(ports.store),
                blocks=services.blocks,
                block_store=BlockStore(ports.store),
                rules=self._foundation.rules,
                refuse=lambda caller, config: services.refuse(caller, config),
                clock=ports.clock,
                ids=ports.ids,
            )
        )

    @cached_property
    def messages(self) -> LettaMessages:
        from turnstone.services.letta.messages import LettaMessageDeps, LettaMessages

        foundation = self._foundation
        ports = foundation.ports
        return LettaMessages(
            LettaMessageDeps(
                agents=self.agents,
                turns=self._turns().turns,
                sessions=foundation.session_store,
                records=ports.store,
                rules=foundation.rules,
                clock=ports.clock,
                ids=ports.ids,
                ephemeral_for_s=foundation.settings.ephemeral_ttl_s,
                patience_s=PATIENCE_ON_LAMBDA_S if foundation.is_on_lambda else PATIENCE_S,
            )
        )
