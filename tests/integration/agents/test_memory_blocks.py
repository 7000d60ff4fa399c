"""Memory blocks of agents: shown before each inference, edited once, shared, and removed with their agents.

Covers: services/agents/blocks, services/agents/block_prompts, services/agents/core_memory, store/agents/blocks,
store/agents/agents, store/keys/blocks, domain/tools/base_tools, services/cleanup/deleting
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.models.scripted import call, calls
from tests.support.engine.either_store import Make
from tests.support.engine.harness import LEASE_S, Server, saves_step, together, turn_in
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.agents.agents import MOST_BLOCKS
from turnstone.domain.agents.blocks import BlockQuery, NewBlock
from turnstone.domain.errors import InvalidRequest, LabelTaken, NotFound
from turnstone.domain.tools.base_tools import CORE_MEMORY
from turnstone.domain.turns.turns import ToolExecutionStep, TurnStatus
from turnstone.ports.records import Put

STRANGER = Caller(tenant="another", principal="stranger")


def block(server: Server, label: str = "human", value: str = "name: Bob", **fields: Any) -> str:
    return server.core.blocks.create(LOCAL_CALLER, NewBlock(label, value, fields)).block.block_id


def value_of(server: Server, block_id: str) -> str:
    return server.core.blocks.read(LOCAL_CALLER, block_id).block.value


def prompts(server: Server) -> list[str]:
    return [str(request.messages[0].content) for request in server.inference.requests]


def append(text: str, label: str = "human", call_id: str = "c") -> Any:
    return call("core_memory_append", call_id, label=label, content=text)


def tool_answers(turn: Any) -> list[str]:
    steps = (step for step in turn.steps if isinstance(step, ToolExecutionStep))
    return [str(response.content) for step in steps for response in step.tool_responses]


def edits_block(each: Any) -> bool:
    return any(isinstance(put, Put) and "|block:" in put.key.pk for put in each.operations)


def test_each_inference_shows_the_blocks_as_they_are_then(make: Make) -> None:
    server = make(append("likes tea"), "done")
    persona = block(server, "persona", "I am Sam")
    ids = [block(server), persona]
    ref = server.session(instructions="Hello {CORE_MEMORY} {x}", memory_blocks=ids, toolgroups=[CORE_MEMORY])
    turn = turn_in(server.whole_turn(ref))
    first, second = prompts(server)
    assert first.startswith("Hello Memory, last changed")
    assert first.endswith('<persona characters="8/5000">\nI am Sam\n</persona> {x}')
    assert '<human characters="9/5000">\nname: Bob\n</human>' in first
    assert '<human characters="19/5000">\nname: Bob\nlikes tea\n</human>' in second
    assert tool_answers(turn) == ["The block 'human' has 19 of 5000 characters now."]
    server.assert_whole(ref)


def test_the_blocks_of_an_inference_are_one_read(make: Make) -> None:
    server = make("plain", "plain", "blocks", "blocks")
    ids = [block(server), block(server, "persona")]
    verbs = []
    for blocks in ([], ids):
        ref = server.session(memory_blocks=blocks)
        server.whole_turn(ref)
        before = len(server.store.calls)
        server.whole_turn(ref)
        verbs.append(sorted(each.verb for each in server.store.calls[before:]))
    without, with_blocks = verbs
    assert with_blocks == sorted([*without, "gather"])


def test_an_agent_sees_the_edits_of_another_that_shares_the_block(make: Make) -> None:
    def edit_elsewhere(_: object) -> Any:
        list(server.start(other).wait())
        return append("second", label="persona", call_id="d")

    server = make(edit_elsewhere, append("from the other"), "done", "done")
    shared, persona = block(server), block(server, "persona", "p")
    here = server.session(memory_blocks=[shared, persona], toolgroups=[CORE_MEMORY])
    other = server.session(memory_blocks=[shared], toolgroups=[CORE_MEMORY])
    server.whole_turn(here)
    assert ["from the other" in prompt for prompt in prompts(server)] == [False, False, True, True]
    assert value_of(server, persona) == "p\nsecond"


def test_an_edit_is_made_once_although_the_process_died_before_its_step(make: Make) -> None:
    dying = make(append("likes tea"))
    shared = block(dying)
    ref = dying.session(memory_blocks=[shared], toolgroups=[CORE_MEMORY])
    edits: list[int] = []
    dying.store.after(edits_block, lambda: edits.append(1))
    dying.store.before(lambda each: saves_step(each) and bool(edits), dying.store.die)
    turn = dying.start(ref)
    dying.drain(turn)
    heir = make("done")
    assert value_of(heir, shared) == "name: Bob\nlikes tea"
    heir.clock.advance(LEASE_S)  # type: ignore[attr-defined]
    heir.core.recovery.reconcile(turn.ref)
    heir.settle()
    assert heir.state(turn.ref).status is TurnStatus.COMPLETED
    assert value_of(heir, shared) == "name: Bob\nlikes tea"


def test_edits_of_several_agents_at_once_are_all_kept(make: Make) -> None:
    server = make()
    shared = block(server, value="")
    store, now = server.core.agent_services._block_store, server.clock.now()
    together(
        *(
            lambda key=str(n): store.edit(LOCAL_CALLER.tenant, shared, key, lambda each: each.appended(key, now))
            for n in range(4)
        )
    )
    assert sorted(value_of(server, shared).split()) == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("wrong", "answer"),
    [
        (append("x", label="pet"), "There is no memory block 'pet'; the blocks are: 'human'."),
        (append("x" * 20), "the value has 30 characters, over the block's limit of 20"),
        (call("core_memory_append", "c", label="human"), "content: must be a text"),
        (call("core_memory_replace", "c", label="human", old_content="Al", new_content=""), "does not contain"),
    ],
)
def test_an_edit_that_cannot_be_made_is_an_answer_to_the_model(make: Make, wrong: Any, answer: str) -> None:
    server = make(wrong, "done")
    ref = server.session(memory_blocks=[block(server, limit=20)], toolgroups=[CORE_MEMORY])
    (given,) = tool_answers(turn_in(server.whole_turn(ref)))
    assert answer in given
    assert "name: Bob" in prompts(server)[1]


def test_a_replacement_and_an_append_of_one_inference_are_both_made(make: Make) -> None:
    replace = call("core_memory_replace", "r", label="human", old_content="Bob", new_content="Ann {x} %s")
    server = make(calls(replace, append("likes tea", call_id="a")), "done")
    shared = block(server)
    server.whole_turn(server.session(memory_blocks=[shared], toolgroups=[CORE_MEMORY]))
    assert sorted(value_of(server, shared).splitlines()) == ["likes tea", "name: Ann {x} %s"]


def test_an_agent_with_a_missing_block_or_one_label_twice_is_refused(make: Make) -> None:
    server = make()
    ids = [block(server), block(server)]
    with pytest.raises(InvalidRequest, match="the label 'human'"):
        server.agent(memory_blocks=ids)
    foreign = server.core.blocks.create(STRANGER, NewBlock("x", "", {})).block.block_id
    for missing in ("none", foreign):
        with pytest.raises(InvalidRequest, match=f"block '{missing}' not found"):
            server.agent(memory_blocks=[missing])


def test_blocks_are_attached_to_agents_and_detached(make: Make) -> None:
    server = make("done", "done")
    blocks, agent_id = server.core.blocks, server.agent(instructions="Hi")
    kept = block(server)
    blocks.attach(LOCAL_CALLER, agent_id, kept)
    blocks.attach(LOCAL_CALLER, agent_id, kept)
    own = blocks.add(LOCAL_CALLER, agent_id, NewBlock("persona", "I am Sam", {}))
    assert [each.label for each in blocks.of_agent(LOCAL_CALLER, agent_id)] == ["human", "persona"]
    with pytest.raises(LabelTaken, match="the label 'persona'"):
        blocks.add(LOCAL_CALLER, agent_id, NewBlock("persona", "", {}))
    ref = server.session(agent_id)
    server.whole_turn(ref)
    for each in (kept, own.block_id):
        blocks.detach(LOCAL_CALLER, agent_id, each)
    with pytest.raises(NotFound):
        blocks.detach(LOCAL_CALLER, agent_id, kept)
    server.whole_turn(ref)
    assert ["I am Sam" in prompt for prompt in prompts(server)] == [True, False]
    assert value_of(server, kept) == "name: Bob"
    with pytest.raises(NotFound):
        value_of(server, own.block_id)


def test_a_deleted_agent_takes_along_the_blocks_that_are_its_alone(make: Make) -> None:
    server = make()
    first, second = server.agent(), server.agent()
    alone = server.core.blocks.add(LOCAL_CALLER, first, NewBlock("a", "", {})).block_id
    both = server.core.blocks.add(LOCAL_CALLER, first, NewBlock("b", "", {})).block_id
    server.core.blocks.attach(LOCAL_CALLER, second, both)
    server.core.deleting.delete_agent(LOCAL_CALLER, first)
    with pytest.raises(NotFound):
        value_of(server, alone)
    assert value_of(server, both) == ""
    server.core.deleting.delete_agent(LOCAL_CALLER, second)
    with pytest.raises(NotFound):
        value_of(server, both)


def test_a_deleted_block_disappears_from_the_prompt(make: Make) -> None:
    server = make("done")
    gone, stays = block(server), block(server, "persona", "I am Sam")
    ref = server.session(memory_blocks=[gone, stays])
    server.core.blocks.delete(LOCAL_CALLER, gone)
    server.whole_turn(ref)
    assert "human" not in prompts(server)[0]
    assert "I am Sam" in prompts(server)[0]


def test_an_agent_has_so_many_blocks_at_most_and_is_deleted_with_all(make: Make) -> None:
    server = make()
    agent_id = server.agent()
    ids = [
        server.core.blocks.add(LOCAL_CALLER, agent_id, NewBlock(str(n), "", {})).block_id for n in range(MOST_BLOCKS)
    ]
    with pytest.raises(InvalidRequest, match=f"at most {MOST_BLOCKS}"):
        server.core.blocks.add(LOCAL_CALLER, agent_id, NewBlock("more", "", {}))
    server.core.deleting.delete_agent(LOCAL_CALLER, agent_id)
    with pytest.raises(NotFound):
        value_of(server, ids[0])


def test_a_block_of_another_tenant_is_missing(make: Make) -> None:
    server = make()
    kept, blocks = block(server), server.core.blocks
    agent_id = server.agent()
    for act in (blocks.read, blocks.delete, lambda caller, each: blocks.change(caller, each, {"value": "x"})):
        with pytest.raises(NotFound):
            act(STRANGER, kept)
    foreign = blocks.create(STRANGER, NewBlock("x", "", {})).block.block_id
    with pytest.raises(NotFound):
        blocks.attach(LOCAL_CALLER, agent_id, foreign)
    assert [each.block.block_id for each in blocks.list(STRANGER, BlockQuery())] == [foreign]


def test_a_change_keeps_the_other_fields_and_the_limit(make: Make) -> None:
    server = make()
    kept = block(server, limit=20, description="d", metadata={"k": 1})
    changed = server.core.blocks.change(LOCAL_CALLER, kept, {"value": "new", "label": "pet"}).block
    assert (changed.value, changed.label, changed.limit, changed.metadata) == ("new", "pet", 20, {"k": 1})
    with pytest.raises(InvalidRequest, match="21 characters"):
        server.core.blocks.change(LOCAL_CALLER, kept, {"value": "x" * 21})
    assert [each.block.block_id for each in server.core.blocks.list(LOCAL_CALLER, BlockQuery(label="pet"))] == [kept]
