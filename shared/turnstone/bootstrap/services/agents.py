"""The services of agents."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnstone.bootstrap.services.foundation import Foundation
    from turnstone.bootstrap.services.registries import Registries
    from turnstone.domain.agents.agents import AgentConfig
    from turnstone.services.agents.agents import Agents


class AgentServices:
    """The services of agents; the registries are built for the first change, not for a read."""

    def __init__(self, foundation: Foundation, registries: Callable[[], Registries]) -> None:
        self._foundation = foundation
        self._registries = registries

    @cached_property
    def agents(self) -> Agents:
        from turnstone.services.agents.agents import Agents

        ports = self._foundation.ports
        return Agents(
            self._foundation.agent_store,
            self._foundation.rules,
            lambda tenant, config: self.refuse(tenant, config),
            ports.clock,
            ports.ids,
        )

    @cached_property
    def refuse(self) -> Callable[[str, AgentConfig], None]:
        """Refusal of an agent that could not run here, by its tenant and configuration. Raises InvalidRequest."""
        from turnstone.services.agents.refusals import refuse_at_creation, refuse_many_iterations
        from turnstone.services.tools.tenant_tools import offered_at_creation

        registries = self._registries()
        offered = partial(offered_at_creation, registries.toolgroup_lookup, registries.tool_kinds)
        routing = registries.routing
        most_iterations = self._foundation.settings.max_infer_iters

        def refuse(tenant: str, config: AgentConfig) -> None:
            refuse_many_iterations(config.max_infer_iters, most_iterations)
            refuse_at_creation(config, partial(offered, tenant))
            routing.refuse_unknown(tenant, config.model)

        return refuse
