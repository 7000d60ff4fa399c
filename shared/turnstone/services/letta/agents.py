"""Agents of Letta's API: create, read, list and change them, with their fields and memory blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from turnstone.domain.access.access import owner_of
from turnstone.domain.access.caller import Caller
from turnstone.domain.agents.agents import MOST_BLOCKS, Agent, AgentConfig
from turnstone.domain.agents.blocks import refuse_same_labels
from turnstone.domain.errors import Conflict, InvalidRequest
from turnstone.domain.letta.agents import LettaAgent, LettaFields, LettaQuery, NewLettaAgent, TagQuery
from turnstone.domain.letta.tools import custom_tools_of, refuse_many_tools, toolgroup_of_custom, variables_of
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.records import Operation
from turnstone.ports.system import Clock, IdGenerator
from turnstone.services.access.access import AccessRules
from turnstone.services.agents.blocks import Blocks
from turnstone.services.letta.tools import CustomTools
from turnstone.store.agents.agents import AgentChange, AgentStore, StoredAgent
from turnstone.store.agents.blocks import BUSY, BlockStore, puts_of_new
from turnstone.store.layout.contention import retried
from turnstone.store.layout.listing import ListEntry
from turnstone.store.letta.agents import LettaAgentStore, put_fields
from turnstone.store.letta.tools import ToolStore

if TYPE_CHECKING:  # few agents have sources
    from turnstone.domain.memory.banks import Bank
    from turnstone.services.letta.sources import Sources

AT_ONCE = 50
MOST_SCANNED = 1_000


@dataclass(frozen=True, slots=True)
class LettaAgentDeps:
    """Dependencies of Letta's agents.

    Attributes:
        sources: returns the service of sources, which only agents with some need.
        refuse: raises InvalidRequest for an agent that could not run here.
    """

    agents: AgentStore
    store: LettaAgentStore
    blocks: Blocks
    block_store: BlockStore
    sources: Callable[[], Sources]
    tools: CustomTools
    tool_store: ToolStore
    rules: AccessRules
    refuse: Callable[[Caller, AgentConfig], None]
    clock: Clock
    ids: IdGenerator


class LettaAgents:
    def __init__(self, deps: LettaAgentDeps) -> None:
        self._deps = deps

    def create(
        self,
        caller: Caller,
        new: NewLettaAgent,
        attempt: Attempt,
        beside: Callable[[str], Sequence[Operation]] | None = None,
    ) -> LettaAgent:
        """Return the new agent, stored with its fields and blocks by one write.

        Args:
            beside: returns more writes for its id, made with the others or not at all.

        Raises NotFound for a missing block, source or tool, InvalidRequest, IdempotencyMismatch.
        """
        now, agent_id, tenant = self._deps.clock.now(), self._deps.ids.new_id(), caller.tenant
        made = [self._deps.blocks.made(caller, block, agent_id) for block in new.new_blocks]
        ids = (*(each.block.block_id for each in made), *new.block_ids)
        if len(ids) > MOST_BLOCKS:
            raise InvalidRequest(
                f"memory_blocks: an agent has at most {MOST_BLOCKS} with block_ids", ("memory_blocks",)
            )
        named = [toolgroup_of_custom(self._deps.tools.id_named(caller, name)) for name in new.tool_names]
        toolgroups = tuple(dict.fromkeys((*new.config.toolgroups, *named)))
        config = new.config.model_copy(update={"memory_blocks": ids, "toolgroups": toolgroups})
        self._check_tools(caller, config, ())
        self._deps.refuse(caller, config)
        agent = Agent(agent_id=agent_id, agent_config=config, created_at=now)
        stored = StoredAgent(agent, self._deps.ids.order_key(now, None), owner_of(caller))
        variables = {"environment": variables_of(new.environment, (), now)} if new.environment else {}
        own_fields = new.fields.model_copy(update={"updated_at": now, **variables})
        if own_fields.source_ids:
            source_ids = self._deps.sources().attached(caller, stored.stamp, (), own_fields.source_ids)
            own_fields = own_fields.model_copy(update={"source_ids": source_ids})
        fields = put_fields(tenant, agent_id, own_fields)
        own = [write for each in made for write in puts_of_new(tenant, each)]
        more = beside(agent_id) if beside else ()

        def act() -> str:
            existing = self._deps.blocks.existing(caller, new.block_ids)
            refuse_same_labels(each.label for each in (*(each.block for each in made), *existing))
            links = self._deps.blocks.relinking(caller, agent_id, (), new.block_ids)
            return self._deps.agents.create(tenant, stored, attempt, now, [fields, *own, *links, *more])

        return self.read(caller, retried(act, BUSY, on=(Conflict,)))

    def read(self, caller: Caller, agent_id: str) -> LettaAgent:
        """Return the agent. Raises NotFound, ContentLost."""
        stored, fields = self._deps.store.read(caller.tenant, agent_id)
        self._deps.rules.check_sight(caller, stored.stamp, "agent", agent_id)
        return self._whole(caller.tenant, stored, fields)

    def check_change(self, caller: Caller, agent_id: str) -> None:
        """Raise NotFound, and Forbidden where the caller may not change the agent."""
        stored, _ = self._deps.store.read(caller.tenant, agent_id)
        self._deps.rules.check_sight(caller, stored.stamp, "agent", agent_id)  # which the answer needs
        self._deps.rules.check_deletion(caller, stored.stamp, "agent", agent_id, "change")

    def list(self, caller: Caller, query: LettaQuery) -> Iterator[LettaAgent]:
        """Yield the requested agents, in the order of their creation. Raises NotFound."""
        after = None if query.after is None else self._position(caller, query.after)
        entries = islice(self._deps.agents.entries(caller.tenant, after, query.limit), MOST_SCANNED)
        return islice(self._matching(caller, query, entries), query.limit)

    def change(
        self,
        caller: Caller,
        agent_id: str,
        config_changes: Mapping[str, Any],
        field_changes: Callable[[LettaFields], Mapping[str, Any]],
        block_ids: Sequence[str] | None = None,
        beside: Callable[[LettaFields], Sequence[Operation]] = lambda _: (),
    ) -> LettaAgent:
        """Return the changed agent; its running turn keeps its configuration, its next has the new one.

        Args:
            field_changes: of them, `environment` has the values of the variables by their names.
            beside: returns writes that are made with the change or not at all; called before each try.

        Raises NotFound, Forbidden, InvalidRequest, ContentLost.
        """
        return self._changed(caller, agent_id, lambda _: config_changes, field_changes, block_ids, beside)

    def change_config(
        self, caller: Caller, agent_id: str, config_changes: Callable[[AgentConfig], Mapping[str, Any]]
    ) -> LettaAgent:
        """Return the agent with the changes that the function makes of its configuration. Raises as `change` does."""
        return self._changed(caller, agent_id, config_changes, lambda _: {}, None, lambda _: ())

    def attach_source(self, caller: Caller, agent_id: str, source_id: str) -> Bank:
        """Attach the source, whose passages the agent then finds; return it. Raises as `change` does."""
        agent = self.change(caller, agent_id, {}, lambda fields: {"source_ids": (*fields.source_ids, source_id)})
        return agent.source(source_id)

    def detach_source(self, caller: Caller, agent_id: str, source_id: str) -> Bank:
        """Detach the source, if the agent has it; return it. Raises as `change` does."""
        self.check_change(caller, agent_id)
        attached = [each for each in self.read(caller, agent_id).sources if each.bank_id == source_id]
        source = attached[0] if attached else self._deps.sources().get(caller, source_id)

        def without(fields: LettaFields) -> Mapping[str, Any]:
            return {"source_ids": tuple(each for each in fields.source_ids if each != source_id)}

        self.change(caller, agent_id, {}, without)
        return source

    def tags(self, caller: Caller, query: TagQuery) -> tuple[str, ...]:
        """Return the requested part of the tags of the oldest agents that the caller may see, in alphabetical order."""
        entries = islice(self._deps.agents.entries(caller.tenant, None, MOST_SCANNED), MOST_SCANNED)
        ids = (entry.fields["agent_id"] for entry in entries if self._deps.rules.may_see(caller, entry.stamp))
        found: set[str] = set()
        while batch := list(islice(ids, AT_ONCE)):
            for fields in self._deps.store.fields_of(caller.tenant, batch):
                found.update(fields.tags)
        return tuple(sorted(filter(query.matches, found))[: query.limit])

    def _changed(
        self,
        caller: Caller,
        agent_id: str,
        config_changes: Callable[[AgentConfig], Mapping[str, Any]],
        field_changes: Callable[[LettaFields], Mapping[str, Any]],
        block_ids: Sequence[str] | None,
        beside: Callable[[LettaFields], Sequence[Operation]],
    ) -> LettaAgent:
        self.check_change(caller, agent_id)
        now = self._deps.clock.now()

        def act(found: StoredAgent) -> AgentChange:
            before = found.agent.agent_config
            fields = self._deps.store.fields(caller.tenant, agent_id)
            changes = {**field_changes(fields), "updated_at": now}
            if (values := changes.get("environment")) is not None:
                changes["environment"] = variables_of(values, fields.environment, now)
            changed = fields.model_copy(update=changes)
            if changed.source_ids != fields.source_ids:
                next_ids = self._deps.sources().attached(caller, found.stamp, fields.source_ids, changed.source_ids)
                changed = changed.model_copy(update={"source_ids": next_ids})
            writes = [put_fields(caller.tenant, agent_id, changed), *beside(fields)]
            config = before.model_copy(update=config_changes(before))
            if block_ids is not None:
                self._deps.blocks.existing(caller, [each for each in block_ids if each not in before.memory_blocks])
                writes += self._deps.blocks.relinking(caller, agent_id, before.memory_blocks, block_ids)
                config = config.model_copy(update={"memory_blocks": tuple(block_ids)})
            self._check_tools(caller, config, custom_tools_of(before.toolgroups))
            self._deps.refuse(caller, config)
            return AgentChange(config, tuple(writes))

        self._deps.agents.change(caller.tenant, agent_id, act)
        return self.read(caller, agent_id)

    def _check_tools(self, caller: Caller, config: AgentConfig, before: Sequence[str]) -> None:
        """Raise NotFound for a new tool that is missing or hidden, InvalidRequest for too many."""
        tool_ids = custom_tools_of(config.toolgroups)
        refuse_many_tools(tool_ids)
        self._deps.tools.existing(caller, [each for each in tool_ids if each not in before])

    def _position(self, caller: Caller, agent_id: str) -> str:
        """Return the agent's position in the list. Raises NotFound."""
        position = self._deps.agents.position(caller.tenant, agent_id)
        self._deps.rules.check_sight(caller, position.stamp, "agent", agent_id)
        return position.order

    def _matching(self, caller: Caller, query: LettaQuery, entries: Iterator[ListEntry]) -> Iterator[LettaAgent]:
        named = (
            entry.fields["agent_id"]
            for entry in entries
            if query.names(entry.fields["name"]) and self._deps.rules.may_see(caller, entry.stamp)
        )
        while ids := list(islice(named, min(AT_ONCE, query.limit))):
            for stored, fields in self._deps.store.read_all(caller.tenant, ids):
                if query.matches(fields.tags):
                    yield self._whole(caller.tenant, stored, fields)

    def _whole(self, tenant: str, stored: StoredAgent, fields: LettaFields) -> LettaAgent:
        agent = stored.agent
        blocks = self._deps.block_store.gather(tenant, agent.agent_config.memory_blocks)
        tools = self._deps.tool_store.gather(tenant, custom_tools_of(agent.agent_config.toolgroups))
        return LettaAgent.model_construct(
            agent_id=agent.agent_id,
            config=agent.agent_config,
            created_at=agent.created_at,
            owner=stored.stamp.owner,
            fields=fields,
            blocks=tuple(each.block for each in blocks),
            sources=self._sources(tenant, stored, fields),
            tools=tuple(each.tool for each in tools),
        )

    def _sources(self, tenant: str, stored: StoredAgent, fields: LettaFields) -> tuple[Bank, ...]:
        if not fields.source_ids:
            return ()
        return self._deps.sources().lent(tenant, stored.stamp, fields.source_ids)
