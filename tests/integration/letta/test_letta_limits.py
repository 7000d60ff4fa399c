"""Limits, rights and races of Letta's agents and their memory blocks, over both stores.

Covers: services/letta/agents, services/agents/blocks, services/cleanup/deleting, store/agents/agents
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.engine.either_store import Make
from tests.support.engine.harness import Server, StoreCall, attempt
from turnstone.dialects.letta.requests import CreateLettaAgent
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.agents.agents import MOST_BLOCKS
from turnstone.domain.agents.blocks import NewBlock
from turnstone.domain.errors import Forbidden, InvalidRequest, NotFound
from turnstone.domain.letta.agents import LettaAgent, LettaQuery
from turnstone.ports.records import Delete


def create(server: Server, **fields: Any) -> LettaAgent:
    body = CreateLettaAgent.model_validate({"llm_config": {"model": "scripted"}, **fields})
    return server.core.letta_agents.create(LOCAL_CALLER, body.to_new("Sam"), attempt())


def listed(server: Server) -> list[LettaAgent]:
    return list(server.core.letta_agents.list(LOCAL_CALLER, LettaQuery(limit=50)))


def deletes_agent(call: StoreCall) -> bool:
    return any(isinstance(each, Delete) and each.key.sk.startswith("agent") for each in call.operations) or any(
        isinstance(each, Delete) and "agent:" in each.key.pk for each in call.operations
    )


def test_more_blocks_than_an_agent_has_are_refused_and_leave_nothing(make: Make) -> None:
    server = make()
    kept = server.core.blocks.create(LOCAL_CALLER, NewBlock("pet", "cat", {}))
    blocks = [{"label": f"l{number}", "value": ""} for number in range(MOST_BLOCKS)]
    with pytest.raises(InvalidRequest, match="at most 40"):
        create(server, memory_blocks=blocks, block_ids=[kept.block.block_id])
    assert listed(server) == []


def test_more_changes_of_blocks_than_one_write_has_are_refused(make: Make) -> None:
    server = make()
    blocks = [{"label": f"l{number}", "value": ""} for number in range(MOST_BLOCKS)]
    agent = create(server, memory_blocks=blocks)
    others = [server.core.blocks.create(LOCAL_CALLER, NewBlock(f"o{n}", "", {})) for n in range(MOST_BLOCKS)]
    ids = [each.block.block_id for each in others]
    with pytest.raises(InvalidRequest, match="too many memory blocks"):
        server.core.letta_agents.change(LOCAL_CALLER, agent.agent_id, {}, lambda _: {}, ids)
    assert len(server.core.letta_agents.read(LOCAL_CALLER, agent.agent_id).blocks) == MOST_BLOCKS


def test_a_deleted_block_is_not_counted_among_those_of_an_agent(make: Make) -> None:
    server = make()
    agent_id = create(server, memory_blocks=[]).agent_id
    for number in range(MOST_BLOCKS + 1):
        block_id = server.core.blocks.create(LOCAL_CALLER, NewBlock(f"l{number}", "", {})).block.block_id
        server.core.blocks.attach(LOCAL_CALLER, agent_id, block_id)
        server.core.blocks.delete(LOCAL_CALLER, block_id)
    server.core.blocks.add(LOCAL_CALLER, agent_id, NewBlock("last", "", {}))
    assert [each.label for each in server.core.letta_agents.read(LOCAL_CALLER, agent_id).blocks] == ["last"]


def test_a_block_is_attached_only_by_callers_that_may_change_it(make: Make) -> None:
    server = make()
    bob = Caller(tenant=LOCAL_CALLER.tenant, principal="bob")
    block_id = server.core.blocks.create(LOCAL_CALLER, NewBlock("team", "", {})).block.block_id
    body = CreateLettaAgent.model_validate({"llm_config": {"model": "scripted"}})
    agent_id = server.core.letta_agents.create(bob, body.to_new("Bob"), attempt()).agent_id
    with pytest.raises(Forbidden):
        server.core.blocks.attach(bob, agent_id, block_id)
    with pytest.raises(Forbidden):
        server.core.letta_agents.change(bob, agent_id, {}, lambda _: {}, [block_id])
    with_block = CreateLettaAgent.model_validate({"llm_config": {"model": "scripted"}, "block_ids": [block_id]})
    with pytest.raises(Forbidden):
        server.core.letta_agents.create(bob, with_block.to_new("Other"), attempt())


def test_a_caller_without_sight_of_an_agent_changes_nothing_of_it(make: Make) -> None:
    server = make()
    owner = Caller(tenant=LOCAL_CALLER.tenant, principal="ann", teams=("red",))
    admin = Caller(tenant=LOCAL_CALLER.tenant, principal="root", roles=("admin",))
    body = CreateLettaAgent.model_validate({"llm_config": {"model": "scripted"}})
    agent_id = server.core.letta_agents.create(owner, body.to_new("Sam"), attempt()).agent_id
    with pytest.raises(NotFound):
        server.core.letta_agents.change(admin, agent_id, {"name": "HACK"}, lambda _: {})
    assert server.core.letta_agents.read(owner, agent_id).config.name == "Sam"
    with pytest.raises(NotFound):
        list(server.core.letta_agents.list(admin, LettaQuery(limit=5, after=agent_id)))


def test_a_block_attached_while_its_agent_is_deleted_is_detached(make: Make) -> None:
    server, other = make(), make()
    agent_id = create(server, memory_blocks=[]).agent_id
    block_id = server.core.blocks.create(LOCAL_CALLER, NewBlock("team", "", {})).block.block_id
    server.store.before(deletes_agent, lambda: other.core.blocks.attach(LOCAL_CALLER, agent_id, block_id))
    server.core.deleting.delete_agent(LOCAL_CALLER, agent_id)
    assert server.core.blocks.read(LOCAL_CALLER, block_id).agents == ()
    server.core.blocks.change(LOCAL_CALLER, block_id, {"label": "other"})
