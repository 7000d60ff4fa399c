"""Agents in the store: each under its own key, and a small projection in the list of its tenant."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import from_json

from turnstone.domain.access.access import Ownership
from turnstone.domain.agents.agents import Agent, AgentConfig
from turnstone.domain.errors import Conflict, ContentLost, NotFound
from turnstone.domain.tools.tool_secrets import secrets_of, unmasked
from turnstone.domain.turns.attempts import Attempt
from turnstone.domain.values.ids import moment_of
from turnstone.ports.records import Absent, AttributeIs, Condition, Delete, Get, Operation, Put, Record, RevIs
from turnstone.ports.storage import RangeStore
from turnstone.store.layout.contention import retried
from turnstone.store.layout.frames import frame, private_part, wire_part
from turnstone.store.layout.idempotency import Once
from turnstone.store.layout.keys import agent_key, agent_list, agent_list_key
from turnstone.store.layout.listing import ListEntry, entries_of, put_entry
from turnstone.store.layout.lost_records import LostRecord
from turnstone.store.layout.newer_records import NewerRecord

if TYPE_CHECKING:
    from turnstone.domain.jobs import Job

ACTIVE = "active"
LOST = "[The content of this agent is lost: the server's stored copy of it is missing or damaged.]"
NEWER = "[This agent was stored by a newer version of Turnstone, which this version cannot read.]"
SECRETS = "secrets"
AGENTS_REMEMBERED = 64
REMEMBERED_BYTES = 16 * 1024


class StoredAgent(NamedTuple):
    """An agent, its position in the list of its tenant, its owner and its access list."""

    agent: Agent
    order: str
    stamp: Ownership


class AgentPosition(NamedTuple):
    """An agent's position in the list of its tenant, its owner with the access list, and the ids of its blocks.

    Attributes:
        rev: the revision of the record, None where its content is lost.
    """

    order: str
    stamp: Ownership
    memory_blocks: tuple[str, ...] = ()
    rev: int | None = None


class AgentChange(NamedTuple):
    """An agent's new configuration, and the writes that are made together with it, or not at all."""

    config: AgentConfig
    beside: tuple[Operation, ...] = ()


class AgentStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def create(
        self, tenant: str, stored: StoredAgent, attempt: Attempt, now: datetime, beside: Sequence[Operation] = ()
    ) -> str:
        """Store the agent and return its id, or the id in the answer to an earlier attempt of the request.

        The writes beside it are made together with it, or not at all; raises Conflict where one of them fails.
        """
        agent_id = stored.agent.agent_id
        writes = [_record_of(tenant, stored, Absent()), _entry_of(tenant, stored), *beside]
        return Once(tenant, attempt, {"agent_id": agent_id}, now).write(self._store, writes)["agent_id"]

    def change(self, tenant: str, agent_id: str, act: Callable[[StoredAgent], AgentChange]) -> Agent:
        """Store what the function makes of the agent, called again if another writer comes in between.

        Raises NotFound, ContentLost, StoreUnavailable, and as the function does.
        """

        def attempt() -> Agent:
            record = self._store.get(agent_key(tenant, agent_id))
            stored = agent_of(record, agent_id)
            config, beside = act(stored)
            changed = stored._replace(agent=stored.agent.model_copy(update={"agent_config": config}))
            if record is None or (config == stored.agent.agent_config and not beside):
                return stored.agent
            writes = [_record_of(tenant, changed, RevIs(record.rev)), *beside]
            if config.name != stored.agent.agent_config.name:
                writes.append(_entry_of(tenant, changed)._replace(when=()))
            self._store.write(writes)
            return changed.agent

        return retried(attempt, "the agent is being changed too often at once, try again", on=(Conflict,))

    def get(self, tenant: str, agent_id: str) -> StoredAgent:
        """Return the agent. Raises NotFound."""
        return agent_of(self._store.get(agent_key(tenant, agent_id)), agent_id)

    def owned_wire(self, tenant: str, agent_id: str) -> tuple[Ownership, bytes]:
        """Return the agent's owner with its access list, and the agent as wire JSON. Raises NotFound."""
        record = self._store.get(agent_key(tenant, agent_id))
        if record is None:
            raise NotFound("agent", agent_id)
        return owner_in(private_part(record.body)), wire_part(record.body)

    def position(self, tenant: str, agent_id: str) -> AgentPosition:
        """Return the agent's position in the list of its tenant, with its owner. Raises NotFound.

        Where its own content is lost, the list is searched for it.
        """
        record = self._store.get(agent_key(tenant, agent_id))
        try:
            stored = agent_of(record, agent_id)
        except ContentLost:
            for entry in self.entries(tenant, None, None):
                if entry.fields["agent_id"] == agent_id:
                    return AgentPosition(entry.order, entry.stamp)
            raise
        blocks = stored.agent.agent_config.memory_blocks
        return AgentPosition(stored.order, stored.stamp, blocks, record.rev if record else None)

    def delete(
        self, tenant: str, agent_id: str, position: AgentPosition, job: Job, beside: Sequence[Operation] = ()
    ) -> None:
        """Hide the agent from every reader and leave a job that removes the rest.

        Raises NotFound, and Conflict where the agent was changed after its position was read, or a write beside fails.
        """
        from turnstone.store.cleanup.jobs import put_job  # deferred: whatever deletes has loaded it already

        agent = agent_key(tenant, agent_id)
        entry = agent_list_key(tenant, position.order)
        is_there: Condition = AttributeIs("status", ACTIVE) if position.rev is None else RevIs(position.rev)
        try:
            self._store.write([Delete(agent, (is_there,)), Delete(entry), put_job(job), *beside])
        except Conflict as conflict:
            if conflict.key != agent or position.rev is not None:
                raise
            raise NotFound("agent", agent_id) from conflict

    def clear(self, job: Job, limit: int) -> bool:
        """Remove the rest of a deleted agent itself, such as payloads; return whether nothing is left."""
        agent, entry = agent_key(job.tenant, job.agent_id), agent_list_key(job.tenant, job.order)
        return self._store.clear(agent.pk, limit) and self._store.clear(entry.pk, limit, entry.sk)

    def keeps_sessions(self, tenant: str, agent_id: str) -> tuple[bool, Ownership]:
        """Return whether the agent's sessions stay until they are deleted, and its owner. Raises NotFound."""
        record = self._store.get(agent_key(tenant, agent_id))
        stamp = owner_of_agent(record, agent_id)
        config = from_json(wire_part(record.body))["agent_config"] if record else {}
        return bool(config.get("enable_session_persistence")), stamp

    def stamp(self, tenant: str, agent_id: str) -> Ownership:
        """Return the agent's owner and access list. Raises NotFound."""
        return owner_of_agent(self._store.get(agent_key(tenant, agent_id)), agent_id)

    def entries(self, tenant: str, after: str | None, limit: int | None) -> Iterator[ListEntry]:
        """Yield the entries of the tenant's list after that position."""
        return entries_of(self._store, agent_list(tenant), after, limit)

    def wire(self, tenant: str, agent_ids: Sequence[str]) -> list[bytes]:
        """Return the agents as wire JSON, without missing ones."""
        records, _ = self._store.gather([Get(agent_key(tenant, agent_id)) for agent_id in agent_ids], [])
        found = zip(agent_ids, records, strict=True)
        return [_wire_or_notice(agent_id, record) for agent_id, record in found if record is not None]


def _record_of(tenant: str, stored: StoredAgent, when: Condition) -> Put:
    """Return the write of the agent's record."""
    agent = stored.agent
    private: dict[str, Any] = {"order": stored.order, "stamp": stored.stamp.model_dump(exclude_defaults=True)}
    if secrets := secrets_of(agent.agent_config.tools):
        private[SECRETS] = secrets
    body = frame(private, agent.model_dump_json().encode())
    return Put(agent_key(tenant, agent.agent_id), body, {"status": ACTIVE}, when=(when,))


def _entry_of(tenant: str, stored: StoredAgent) -> Put:
    """Return the write of the agent's entry in the list of its tenant."""
    agent = stored.agent
    shown = {"agent_id": agent.agent_id, "name": agent.agent_config.name, "created_at": agent.created_at}
    return put_entry(agent_list_key(tenant, stored.order), shown, stored.stamp)


def _wire_or_notice(agent_id: str, record: Record) -> bytes:
    """Return the agent as wire JSON, or a placeholder where its content is lost or too new to read."""
    match record:
        case NewerRecord():
            notice = NEWER
        case LostRecord():
            notice = LOST
        case _:
            return wire_part(record.body)
    config = AgentConfig(model="", instructions=notice)
    return Agent(agent_id=agent_id, agent_config=config, created_at=moment_of(agent_id)).model_dump_json().encode()


def agent_of(record: Record | None, agent_id: str) -> StoredAgent:
    """Return the record's agent. Raises NotFound without a record."""
    if record is None:
        raise NotFound("agent", agent_id)
    is_small = len(record.body) <= REMEMBERED_BYTES
    return _remembered(record.body) if is_small else _stored_in(record.body)


@lru_cache(maxsize=AGENTS_REMEMBERED)
def _remembered(body: bytes) -> StoredAgent:
    """Return the parsed body; each turn of an agent reads the same one."""
    return _stored_in(body)


def _stored_in(body: bytes) -> StoredAgent:
    private = private_part(body)
    return StoredAgent(_agent_in(private, wire_part(body)), private["order"], owner_in(private))


def _agent_in(private: dict[str, Any], wire: bytes) -> Agent:
    """Return the agent with its secrets in place of the masks of its wire JSON."""
    if SECRETS not in private:
        return Agent.model_validate_json(wire)
    fields = from_json(wire)
    config = fields["agent_config"]
    config["tools"] = unmasked(config["tools"], private[SECRETS])
    return Agent.model_validate(fields)


def owner_of_agent(record: Record | None, agent_id: str) -> Ownership:
    """Return the agent's owner and access list. Raises NotFound without a record."""
    if record is None:
        raise NotFound("agent", agent_id)
    return owner_in(private_part(record.body))


def owner_in(private: dict[str, object]) -> Ownership:
    return Ownership.model_validate(private.get("stamp", {}))
