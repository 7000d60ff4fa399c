"""The fields of agents that only Letta's API has: a record beside the agent, removed with it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from pydantic_core import to_json

from turnstone.domain.errors import ContentLost, RecordTooNew
from turnstone.domain.letta.agents import LettaFields
from turnstone.ports.records import Get, Key, Put, Record
from turnstone.ports.storage import RangeStore
from turnstone.store.agents.agents import StoredAgent, agent_of
from turnstone.store.layout.keys import agent_key

FIELDS = "letta"


def fields_key(tenant: str, agent_id: str) -> Key:
    """Return the key of the fields, in the partition of their agent."""
    return Key(agent_key(tenant, agent_id).pk, FIELDS)


def put_fields(tenant: str, agent_id: str, fields: LettaFields) -> Put:
    """Return the write of the fields, always made together with one of the agent, which has the condition."""
    body = fields.model_dump(mode="json", exclude_unset=True)
    for shown, variable in zip(body.get("environment", ()), fields.environment, strict=False):
        shown["value"] = variable.value.get_secret_value()  # in place of its mask
    return Put(fields_key(tenant, agent_id), to_json(body))


class LettaAgentStore:
    def __init__(self, store: RangeStore) -> None:
        self._store = store

    def read(self, tenant: str, agent_id: str) -> tuple[StoredAgent, LettaFields]:
        """Return the agent and its fields; those of an agent made by another API are the defaults.

        Raises NotFound, ContentLost.
        """
        gets = [Get(agent_key(tenant, agent_id)), Get(fields_key(tenant, agent_id))]
        (agent, fields), _ = self._store.gather(gets, [])
        return agent_of(agent, agent_id), _fields_in(fields)

    def fields(self, tenant: str, agent_id: str) -> LettaFields:
        """Return the fields of the agent. Raises ContentLost."""
        return _fields_in(self._store.get(fields_key(tenant, agent_id)))

    def fields_of(self, tenant: str, agent_ids: Sequence[str]) -> list[LettaFields]:
        """Return the fields of those of the agents that have some and can be read, by one request."""
        records, _ = self._store.gather([Get(fields_key(tenant, agent_id)) for agent_id in agent_ids], [])
        found = []
        for record in records:
            with suppress(ContentLost, RecordTooNew):
                found.append(_fields_in(record))
        return found

    def read_all(self, tenant: str, agent_ids: Sequence[str]) -> list[tuple[StoredAgent, LettaFields]]:
        """Return those of the agents that exist and can be read, with their fields, by one request."""
        gets = [Get(key(tenant, agent_id)) for agent_id in agent_ids for key in (agent_key, fields_key)]
        records, _ = self._store.gather(gets, [])
        found = []
        for agent_id, agent, fields in zip(agent_ids, records[::2], records[1::2], strict=True):
            if agent is None:
                continue
            try:
                found.append((agent_of(agent, agent_id), _fields_in(fields)))
            except (ContentLost, RecordTooNew):
                continue
        return found


def _fields_in(record: Record | None) -> LettaFields:
    return LettaFields.model_construct() if record is None else LettaFields.model_validate_json(record.body)
