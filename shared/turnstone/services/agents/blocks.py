"""Memory blocks: create, read, change, delete them, and attach them to agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from turnstone.domain.access.access import owner_of
from turnstone.domain.access.caller import Caller
from turnstone.domain.agents.agents import MOST_BLOCKS, Agent, AgentConfig
from turnstone.domain.agents.blocks import (
    BLOCK_KIND,
    BlockQuery,
    MemoryBlock,
    NewBlock,
    StoredBlock,
    refuse_long_value,
    refuse_same_labels,
    refuse_taken_label,
)
from turnstone.domain.errors import Conflict, InvalidRequest, NotFound
from turnstone.domain.lists import ListQuery
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.records import Operation
from turnstone.ports.system import Clock, IdGenerator
from turnstone.services.access.access import AccessRules
from turnstone.services.access.visible_list import Listing
from turnstone.store.agents.agents import AgentChange, AgentStore, StoredAgent
from turnstone.store.agents.blocks import BUSY, BlockStore, deletes_of, puts_of_change, puts_of_new
from turnstone.store.layout.contention import retried
from turnstone.store.layout.listing import ListEntry

Result = TypeVar("Result")
AT_ONCE = 50  # blocks of a list
MOST_WRITES = 90  # for the blocks of one agent; a write has a hundred operations
ONCE = Attempt(fingerprint="")  # without a key


class Blocks:
    def __init__(
        self, store: BlockStore, agents: AgentStore, rules: AccessRules, clock: Clock, ids: IdGenerator
    ) -> None:
        self._store = store
        self._agents = agents
        self._rules = rules
        self._clock = clock
        self._ids = ids

    def create(self, caller: Caller, new: NewBlock, attempt: Attempt = ONCE) -> StoredBlock:
        """Return the new block, which no agent has yet.

        Raises InvalidRequest for a value over its limit, IdempotencyMismatch.
        """
        stored = self.made(caller, new)
        block_id = self._store.create(caller.tenant, stored, attempt, self._clock.now())
        return self._visible(caller, block_id)

    def made(self, caller: Caller, new: NewBlock, agent_id: str | None = None) -> StoredBlock:
        """Return a new block that is not stored yet, of that agent if one is given. Raises as `create` does."""
        now = self._clock.now()
        block = MemoryBlock(block_id=self._ids.new_id(), label=new.label, value=new.value, updated_at=now, **new.fields)
        refuse_long_value(block.value, block.limit)
        return StoredBlock(
            block=block,
            order=self._ids.order_key(now, None),
            stamp=owner_of(caller),
            agents=() if agent_id is None else (agent_id,),
            is_kept=agent_id is None,
        )

    def read(self, caller: Caller, block_id: str) -> StoredBlock:
        """Return the block. Raises NotFound, ContentLost."""
        return self._visible(caller, block_id)

    def existing(self, caller: Caller, block_ids: Sequence[str]) -> list[MemoryBlock]:
        """Return the blocks in this order. Raises NotFound for one that is missing or hidden, ContentLost."""
        found = {each.block.block_id: each for each in self._store.gather(caller.tenant, block_ids)}
        for block_id in block_ids:
            if block_id not in found:
                raise NotFound(BLOCK_KIND, block_id)
            self._rules.check_sight(caller, found[block_id].stamp, BLOCK_KIND, block_id)
        return [found[block_id].block for block_id in block_ids]

    def change(self, caller: Caller, block_id: str, changes: Mapping[str, Any]) -> StoredBlock:
        """Return the block with these fields changed.

        Raises NotFound, Forbidden, InvalidRequest, ContentLost, and LabelTaken for the label of another block of one
        of its agents.
        """
        visible = self._visible(caller, block_id)
        self._rules.check_deletion(caller, visible.stamp, BLOCK_KIND, block_id, "change")
        now = self._clock.now()

        def act(stored: StoredBlock) -> StoredBlock:
            if changes.get("label", stored.block.label) != stored.block.label:
                self._refuse_taken(caller.tenant, stored, changes["label"])
            fields = {**stored.block.model_dump(), **changes, "updated_at": now}
            changed = MemoryBlock.model_validate(fields)
            refuse_long_value(changed.value, changed.limit)
            return stored.edited(changed, None)

        return self._store.change(caller.tenant, block_id, act)

    def delete(self, caller: Caller, block_id: str) -> StoredBlock:
        """Delete the block, which disappears from the prompts of its agents, and return it.

        Raises NotFound, Forbidden.
        """

        def act() -> StoredBlock:
            stored = self._visible(caller, block_id)
            self._rules.check_deletion(caller, stored.stamp, BLOCK_KIND, block_id)
            self._store.delete(caller.tenant, stored)
            return stored

        return retried(act, BUSY, on=(Conflict,))

    def list(self, caller: Caller, query: BlockQuery) -> Iterator[StoredBlock]:
        """Return the requested blocks that the caller may see, in the order of their creation.

        Raises NotFound for an unknown `after`.
        """
        after = None if query.after is None else self._visible(caller, query.after).order

        def is_shown(entry: ListEntry) -> bool:
            return query.matches(entry.fields) and self._rules.may_see(caller, entry.stamp)

        entries = self._store.entries(caller.tenant, after, query.limit)
        return self._listed(caller.tenant, Listing(entries, ListQuery(limit=query.limit, cursor=after), is_shown))

    def of_agent(self, caller: Caller, agent_id: str) -> tuple[MemoryBlock, ...]:
        """Return the blocks of the agent, in the order of its prompt. Raises NotFound, ContentLost."""
        config = self._agent(caller, agent_id).agent.agent_config
        return tuple(stored.block for stored in self._store.gather(caller.tenant, config.memory_blocks))

    def creating(self, caller: Caller, agent: Agent, act: Callable[[Sequence[Operation]], Result]) -> Result:
        """Return the result of the function that stores the new agent, with the writes that link its blocks to it.

        Raises InvalidRequest for a missing block, and for two with one label.
        """

        def attempt() -> Result:
            return act(self.relinking(caller, agent.agent_id, (), agent.agent_config.memory_blocks))

        return retried(attempt, BUSY, on=(Conflict,))

    def unlinking(self, tenant: str, agent_id: str, block_ids: Sequence[str]) -> tuple[Operation, ...]:
        """Return the writes that detach the blocks from the agent."""
        blocks = self._store.gather(tenant, block_ids)
        return tuple(write for stored in blocks for write in self._unlink(tenant, stored, agent_id))

    def add(self, caller: Caller, agent_id: str, new: NewBlock) -> MemoryBlock:
        """Create a block of the agent. Raises NotFound, and LabelTaken for a label that it has."""
        self._changeable(caller, agent_id)
        stored = self.made(caller, new, agent_id)

        def act(found: StoredAgent) -> AgentChange:
            config = found.agent.agent_config
            others = self._store.gather(caller.tenant, config.memory_blocks)
            refuse_taken_label(stored.block.label, (each.block for each in others))
            return AgentChange(_with(config, others, stored), puts_of_new(caller.tenant, stored))

        self._agents.change(caller.tenant, agent_id, act)
        return stored.block

    def attach(self, caller: Caller, agent_id: str, block_id: str) -> Agent:
        """Attach the block to the agent. Raises NotFound, Forbidden, and LabelTaken for a label that it has."""
        self._changeable(caller, agent_id)

        def act(found: StoredAgent) -> AgentChange:
            config, stored = found.agent.agent_config, self._visible(caller, block_id)
            if block_id in config.memory_blocks:
                return AgentChange(config)
            self._check_lending(caller, stored)
            others = self._store.gather(caller.tenant, config.memory_blocks)
            refuse_taken_label(stored.block.label, (each.block for each in others))
            link = puts_of_change(caller.tenant, stored, stored.attached_to(agent_id))
            return AgentChange(_with(config, others, stored), link)

        return self._agents.change(caller.tenant, agent_id, act)

    def detach(self, caller: Caller, agent_id: str, block_id: str) -> Agent:
        """Detach the block from the agent, and delete one that was created with an agent and now has none.

        Raises NotFound for the agent, and for a block that it does not have.
        """
        self._changeable(caller, agent_id)

        def act(found: StoredAgent) -> AgentChange:
            config = found.agent.agent_config
            if block_id not in config.memory_blocks:
                raise NotFound(BLOCK_KIND, block_id)
            left = tuple(each for each in config.memory_blocks if each != block_id)
            found_blocks = self._store.gather(caller.tenant, (block_id,))
            unlinks = tuple(write for each in found_blocks for write in self._unlink(caller.tenant, each, agent_id))
            return AgentChange(config.model_copy(update={"memory_blocks": left}), unlinks)

        return self._agents.change(caller.tenant, agent_id, act)

    def _unlink(self, tenant: str, stored: StoredBlock, agent_id: str) -> tuple[Operation, ...]:
        changed = stored.detached_from(agent_id)
        return deletes_of(tenant, stored) if changed.is_left else puts_of_change(tenant, stored, changed)

    def relinking(
        self, caller: Caller, agent_id: str, before: Sequence[str], after: Sequence[str]
    ) -> tuple[Operation, ...]:
        """Return the writes that give the agent these blocks in place of those before.

        Raises InvalidRequest for a missing block, for two with one label, and for more writes than one change has;
        Forbidden for a new block that the caller may not change.
        """
        gone = self._store.gather(caller.tenant, [each for each in before if each not in after])
        stored = self._store.gather(caller.tenant, list(dict.fromkeys(after)))
        found = {each.block.block_id: each for each in stored}
        for block_id in after:
            is_new = block_id not in before
            if is_new and (block_id not in found or not self._rules.may_see(caller, found[block_id].stamp)):
                raise InvalidRequest(f"memory_blocks: {NotFound(BLOCK_KIND, block_id)}", ("memory_blocks",))
            if is_new:
                self._check_lending(caller, found[block_id])
        refuse_same_labels(found[block_id].block.label for block_id in after if block_id in found)
        unlinks = (write for each in gone for write in self._unlink(caller.tenant, each, agent_id))
        new = (each for name, each in found.items() if name not in before)
        links = (write for each in new for write in puts_of_change(caller.tenant, each, each.attached_to(agent_id)))
        writes = (*unlinks, *links)
        if len(writes) > MOST_WRITES:
            raise InvalidRequest(
                "too many memory blocks change at once; take some away first, then add the others", ("memory_blocks",)
            )
        return writes

    def _check_lending(self, caller: Caller, stored: StoredBlock) -> None:
        """Raise Forbidden where the caller may not change the block: turns of an agent change the blocks it has."""
        self._rules.check_deletion(caller, stored.stamp, BLOCK_KIND, stored.block.block_id, "attach")

    def _visible(self, caller: Caller, block_id: str) -> StoredBlock:
        stored = self._store.get(caller.tenant, block_id)
        self._rules.check_sight(caller, stored.stamp, BLOCK_KIND, block_id)
        return stored

    def _changeable(self, caller: Caller, agent_id: str) -> None:
        """Raise NotFound for an agent that the caller may not see, and Forbidden for one that it may not change."""
        self._rules.check_deletion(caller, self._agent(caller, agent_id).stamp, "agent", agent_id, "change")

    def _agent(self, caller: Caller, agent_id: str) -> StoredAgent:
        stored = self._agents.get(caller.tenant, agent_id)
        self._rules.check_sight(caller, stored.stamp, "agent", agent_id)
        return stored

    def _refuse_taken(self, tenant: str, stored: StoredBlock, label: str) -> None:
        """Raise LabelTaken if an agent that has the block has another one with that label."""
        for agent_id in stored.agents:
            try:
                ids = self._agents.get(tenant, agent_id).agent.agent_config.memory_blocks
            except NotFound:  # it is being deleted
                continue
            others = self._store.gather(tenant, [each for each in ids if each != stored.block.block_id])
            refuse_taken_label(label, (each.block for each in others))

    def _listed(self, tenant: str, listing: Listing) -> Iterator[StoredBlock]:
        entries = iter(listing)
        while ids := [entry.fields["block_id"] for entry in islice(entries, AT_ONCE)]:
            yield from self._store.gather(tenant, ids)


def _with(config: AgentConfig, others: Sequence[StoredBlock], added: StoredBlock) -> AgentConfig:
    """Return the configuration with one block more, without those that were deleted. Raises InvalidRequest."""
    if len(others) >= MOST_BLOCKS:
        raise InvalidRequest(f"an agent has at most {MOST_BLOCKS} memory blocks", ("memory_blocks",))
    ids = tuple(each.block.block_id for each in (*others, added))
    return config.model_copy(update={"memory_blocks": ids})
