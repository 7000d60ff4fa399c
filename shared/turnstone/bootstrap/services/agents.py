"""The services of agents, and those of Letta's API, where those of turns are built for messages alone."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING

from turnstone.domain.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnstone.bootstrap.services.foundation import Foundation
    from turnstone.bootstrap.services.registries import Registries
    from turnstone.bootstrap.services.turn_memory import TurnMemoryServices
    from turnstone.bootstrap.services.turns import TurnServices
    from turnstone.bootstrap.services.usage import UsageServices
    from turnstone.domain.access.caller import Caller
    from turnstone.domain.agents.agents import AgentConfig
    from turnstone.services.agents.agents import Agents
    from turnstone.services.agents.block_prompts import BlockPrompts
    from turnstone.services.agents.blocks import Blocks
    from turnstone.services.agents.core_memory import CoreMemoryToolbox
    from turnstone.services.letta.agents import LettaAgents
    from turnstone.services.letta.contexts import LettaContexts
    from turnstone.services.letta.editing import LettaEditing
    from turnstone.services.letta.importing import LettaImporting
    from turnstone.services.letta.messages import LettaMessages
    from turnstone.services.letta.multi_agent import MultiAgentToolbox
    from turnstone.services.letta.runs import LettaRuns
    from turnstone.services.letta.sources import Sources
    from turnstone.services.letta.tools import CustomTools
    from turnstone.store.agents.blocks import BlockStore

PATIENCE_S, PATIENCE_ON_LAMBDA_S = 30.0, 25.0


class AgentServices:
    """The services of agents; the registries are built for the first change, not for a read."""

    def __init__(
        self,
        foundation: Foundation,
        registries: Callable[[], Registries],
        memory: Callable[[], TurnMemoryServices],
    ) -> None:
        self._foundation = foundation
        self._registries = registries
        self._memory = memory

    @cached_property
    def agents(self) -> Agents:
        from turnstone.services.agents.agents import Agents

        ports = self._foundation.ports
        return Agents(
            self._foundation.agent_store,
            self._foundation.rules,
            self._refuse_new,
            ports.clock,
            ports.ids,
            lambda: self.blocks,
        )

    @cached_property
    def blocks(self) -> Blocks:
        from turnstone.services.agents.blocks import Blocks

        ports = self._foundation.ports
        return Blocks(self._block_store, self._foundation.agent_store, self._foundation.rules, ports.clock, ports.ids)

    @cached_property
    def core_memory(self) -> CoreMemoryToolbox:
        """The tools by which agents edit their blocks."""
        from turnstone.services.agents.core_memory import CoreMemoryToolbox

        return CoreMemoryToolbox(self._foundation.agent_store, self._block_store, self._foundation.ports.clock)

    @cached_property
    def prompts(self) -> BlockPrompts:
        from turnstone.services.agents.block_prompts import BlockPrompts

        return BlockPrompts(self._block_store)

    @cached_property
    def tools(self) -> CustomTools:
        """The tools of Python."""
        from turnstone.services.letta.tools import CustomTools, ToolDeps
        from turnstone.store.letta.tools import ToolStore

        ports = self._foundation.ports
        return CustomTools(ToolDeps(ToolStore(ports.store), self._foundation.rules, ports.clock, ports.ids))

    @cached_property
    def _block_store(self) -> BlockStore:
        from turnstone.store.agents.blocks import BlockStore

        return BlockStore(self._foundation.ports.store)

    def _refuse_new(self, caller: Caller, config: AgentConfig) -> None:
        """Raise InvalidRequest for an agent that could not run here, or whose tools of Python are missing."""
        from turnstone.domain.letta.tools import custom_tools_of, refuse_many_tools

        self.refuse(caller, config)
        if tool_ids := custom_tools_of(config.toolgroups):
            refuse_many_tools(tool_ids)
            try:
                self.tools.existing(caller, tool_ids)
            except NotFound as missing:
                raise InvalidRequest(f"toolgroups: {missing}", ("toolgroups",)) from missing

    @cached_property
    def refuse(self) -> Callable[[Caller, AgentConfig], None]:
        """Refusal of an agent that could not run here, by its creator and configuration. Raises InvalidRequest."""
        from turnstone.domain.access.access import owner_of
        from turnstone.domain.memory.lent_banks import LentBanks
        from turnstone.domain.sessions.lending import banks_named_by
        from turnstone.services.agents.refusals import refuse_at_creation, refuse_many_iterations
        from turnstone.services.tools.tenant_tools import offered_at_creation

        registries = self._registries()
        offered = partial(offered_at_creation, registries.toolgroup_lookup, registries.tool_kinds)
        routing = registries.routing
        most_iterations = self._foundation.settings.max_infer_iters

        def refuse(caller: Caller, config: AgentConfig) -> None:
            refuse_many_iterations(config.max_infer_iters, most_iterations)
            refuse_at_creation(config, partial(offered, caller.tenant))
            routing.refuse_unknown(caller.tenant, config.model)
            named = tuple(banks_named_by(config, owner_of(caller)))
            if routing.is_closed and (named or config.tools):
                self._memory().memories.refuse(caller.tenant, config, LentBanks(named))
            elif searched := [bank for bank in named if bank.location[0] == "toolgroups"]:
                self._memory().lending.refuse_unusable(caller.tenant, searched)

        return refuse


class LettaServices:
    """The services of Letta's API."""

    def __init__(
        self,
        foundation: Foundation,
        agents: Callable[[], AgentServices],
        turns: Callable[[], TurnServices],
        usage: Callable[[], UsageServices],
        sources: Callable[[], Sources],
    ) -> None:
        self._foundation = foundation
        self._agents = agents
        self._turns = turns
        self._usage = usage
        self._sources = sources

    @cached_property
    def agents(self) -> LettaAgents:
        from turnstone.services.letta.agents import LettaAgentDeps, LettaAgents
        from turnstone.store.agents.blocks import BlockStore
        from turnstone.store.letta.agents import LettaAgentStore
        from turnstone.store.letta.tools import ToolStore

        ports, services = self._foundation.ports, self._agents()
        return LettaAgents(
            LettaAgentDeps(
                agents=self._foundation.agent_store,
                store=LettaAgentStore(ports.store),
                blocks=services.blocks,
                block_store=BlockStore(ports.store),
                sources=self._sources,
                tools=self.tools,
                tool_store=ToolStore(ports.store),
                rules=self._foundation.rules,
                refuse=lambda caller, config: services.refuse(caller, config),
                clock=ports.clock,
                ids=ports.ids,
            )
        )

    @cached_property
    def tools(self) -> CustomTools:
        return self._agents().tools

    @cached_property
    def contexts(self) -> LettaContexts:
        from turnstone.services.letta.contexts import LettaContexts

        contexts = self._usage().contexts
        return LettaContexts(self.messages, contexts, contexts.route_of)

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
                jobs=lambda: ports.jobs,
                stop_runs=(lambda _: None) if foundation.is_on_lambda else self._turns().local_runs.stop,
            )
        )

    @cached_property
    def multi_agent(self) -> MultiAgentToolbox:
        """The tools by which agents send messages to each other."""
        from turnstone.services.letta.multi_agent import MultiAgentDeps, MultiAgentToolbox

        turns = self._turns()
        return MultiAgentToolbox(
            MultiAgentDeps(
                agents=self.agents,
                messages=self.messages,
                agent_store=self._foundation.agent_store,
                sessions=self._foundation.session_store,
                turns_at=lambda depth: turns.nested[depth - 1],
                turns=turns.turns,
                queues=lambda: turns.session_queues,
            )
        )

    @cached_property
    def importing(self) -> LettaImporting:
        from turnstone.services.letta.importing import LettaImportDeps, LettaImporting

        ports = self._foundation.ports
        return LettaImporting(LettaImportDeps(self.agents, lambda: self.tools, ports.store, ports.clock, ports.ids))

    @cached_property
    def editing(self) -> LettaEditing:
        from turnstone.services.letta.editing import LettaEditing, LettaEditingDeps
        from turnstone.store.sessions.turns import TurnStore

        foundation = self._foundation
        return LettaEditing(
            LettaEditingDeps(
                agents=self.agents,
                turns=TurnStore(foundation.ports.store),
                rules=foundation.rules,
                clock=foundation.ports.clock,
                read_tokens=foundation.settings.context_tokens,
            )
        )

    @cached_property
    def runs(self) -> LettaRuns:
        from turnstone.services.letta.runs import LettaRunDeps, LettaRuns
        from turnstone.store.letta.runs import RunStore
        from turnstone.store.sessions.turns import TurnStore

        foundation, turns = self._foundation, self._turns
        ports = foundation.ports
        return LettaRuns(
            LettaRunDeps(
                messages=lambda: self.messages,
                turns=lambda: turns().turns,
                cancelling=lambda: turns().cancelling,
                store=RunStore(ports.store),
                turn_store=TurnStore(ports.store),  # results are cut out of whole texts
                sessions=foundation.session_store,
                rules=foundation.rules,
                supervisor=ports.supervisor,
                clock=ports.clock,
                kept_for_s=foundation.settings.responses_ttl_s,
            )
        )
