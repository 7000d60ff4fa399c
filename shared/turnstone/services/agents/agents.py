"""Agents: create, read, list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from turnstone.domain.access.access import owner_of
from turnstone.domain.access.caller import Caller
from turnstone.domain.agents.agents import Agent, AgentConfig
from turnstone.domain.errors import InvalidRequest
from turnstone.domain.lists import ListQuery
from turnstone.domain.turns.attempts import Attempt
from turnstone.ports.system import Clock, IdGenerator
from turnstone.services.access.access import AccessRules
from turnstone.services.access.visible_list import Listing
from turnstone.store.agents.agents import AgentStore, StoredAgent
from turnstone.store.layout.listing import ListEntry

if TYPE_CHECKING:  # few agents have memory blocks
    from turnstone.services.agents.blocks import Blocks

AGENTS_AT_ONCE = 50


class Agents:
    def __init__(
        self,
        store: AgentStore,
        rules: AccessRules,
        refuse_unsupported: Callable[[Caller, AgentConfig], None],
        clock: Clock,
        ids: IdGenerator,
        blocks: Callable[[], Blocks],
    ) -> None:
        """Take `refuse_unsupported` and `blocks` as functions, so that reading agents does not load their modules."""
        self._store = store
        self._rules = rules
        self._refuse_unsupported = refuse_unsupported
        self._clock = clock
        self._ids = ids
        self._blocks = blocks

    def create(self, caller: Caller, config: AgentConfig, attempt: Attempt) -> str:
        """Return the new agent's id. Raises Unsupported, InvalidRequest, IdempotencyMismatch."""
        try:
            self._refuse_unsupported(caller, config)
        except InvalidRequest as refused:
            refused.location = ("agent_config", *refused.location)
            raise
        now = self._clock.now()
        agent = Agent(agent_id=self._ids.new_id(), agent_config=config, created_at=now)
        stored = StoredAgent(agent, self._ids.order_key(now, None), owner_of(caller))
        if config.memory_blocks:
            return self._blocks().creating(
                caller, agent, lambda links: self._store.create(caller.tenant, stored, attempt, now, links)
            )
        return self._store.create(caller.tenant, stored, attempt, now)

    def wire(self, caller: Caller, agent_id: str) -> bytes:
        """Return the agent as wire JSON. Raises NotFound."""
        stamp, wire = self._store.owned_wire(caller.tenant, agent_id)
        self._rules.check_sight(caller, stamp, "agent", agent_id)
        return wire

    def list(self, caller: Caller, query: ListQuery) -> tuple[Listing, Iterator[bytes]]:
        """Return a page of agents, and their wire JSON, read from the store on iteration."""

        def is_shown(entry: ListEntry) -> bool:
            has_name = query.name is None or entry.fields["name"] == query.name
            return has_name and self._rules.may_see(caller, entry.stamp)

        entries = self._store.entries(caller.tenant, query.cursor, query.limit)
        listing = Listing(entries, query, is_shown)
        return listing, self._wire(caller.tenant, listing)

    def _wire(self, tenant: str, listing: Listing) -> Iterator[bytes]:
        listed = iter(listing)
        while some := [entry.fields["agent_id"] for entry in islice(listed, AGENTS_AT_ONCE)]:
            yield from self._store.wire(tenant, some)
