"""Letta's tools of Python over both stores: their records, and their calls by agents of either API.

Covers: services/letta/tools, services/letta/python_tools, services/letta/agents, store/letta/tools, store/letta/agents,
  store/keys/tools, services/tools/tenant_tools, services/agents/refusals
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from tests.fakes.models.scripted import Scripted, call
from tests.support.engine.either_store import Make
from tests.support.engine.harness import Server, StoreCall, attempt, together
from turnstone.dialects.letta.agents import state_of
from turnstone.dialects.letta.custom.requests import CreateTool, RunTool, UpdateTool
from turnstone.dialects.letta.messages import AnswerTool, response_of
from turnstone.dialects.letta.requests import CreateLettaAgent, UpdateLettaAgent
from turnstone.dialects.letta.tools import tools_shown
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.agents.agents import AgentConfig
from turnstone.domain.errors import Forbidden, IdempotencyMismatch, InvalidRequest, NotFound, ToolNameTaken, Unsupported
from turnstone.domain.letta.agents import ALL_TOOLS, LettaAgent, tool_id
from turnstone.domain.letta.python_runs import OFF, PythonCall, PythonOutcome
from turnstone.domain.letta.tools import CustomTool, StoredTool, ToolQuery, toolgroup_of_custom
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.values.cancellation import StopSignal

STRANGER = Caller(tenant="another", principal="stranger")
SECRET = "hush-4711"


def new_tool(text: str = "Roll a die.") -> CustomTool:
    return CreateTool.model_validate({"source_code": source(text=text)}).to_new()


def reads_the_name(called: StoreCall) -> bool:
    return called.keys == ("roll",)


@dataclass
class Recorded:
    """Runs nothing, and returns the outcome that it was given."""

    outcome: PythonOutcome = PythonOutcome("4", 1, is_error=False, stdout="rolling\n")
    calls: list[tuple[PythonCall, str]] = field(default_factory=list)

    def run(self, call: PythonCall, tenant: str, timeout_s: float, stop: StopSignal | None) -> PythonOutcome:
        self.calls.append((call, tenant))
        return self.outcome


def source(name: str = "roll", text: str = "Roll a die.", parameters: str = "sides: int") -> str:
    return f"def {name}({parameters}):\n    '''{text}'''\n    return 4\n"


def tool(server: Server, name: str = "roll", caller: Caller = LOCAL_CALLER, **fields: Any) -> StoredTool:
    server.clock.advance(1)  # type: ignore[attr-defined] # else their order is random
    new = CreateTool.model_validate({"source_code": source(name), **fields}).to_new()
    return server.core.letta_tools.create(caller, new, attempt())


def agent(server: Server, *tool_ids: str, caller: Caller = LOCAL_CALLER, **fields: Any) -> LettaAgent:
    body = {"llm_config": {"model": "scripted"}, "tool_ids": [f"tool-{each}" for each in tool_ids], **fields}
    return server.core.letta_agents.create(caller, CreateLettaAgent.model_validate(body).to_new("Sam"), attempt())


def changed(server: Server, agent_id: str, **fields: Any) -> LettaAgent:
    body = UpdateLettaAgent.model_validate(fields)
    return server.core.letta_agents.change(LOCAL_CALLER, agent_id, body.to_config(), lambda _: body.to_fields())


def send(text: str) -> Scripted:
    return call("send_message", "s", inner_thoughts="Hm.", message=text)


def roll(**arguments: Any) -> Scripted:
    return call("roll", "r", inner_thoughts="Hm.", **{"sides": "6", "request_heartbeat": True, **arguments})


def talk(server: Server, agent_id: str) -> list[Any]:
    """Send a message and return the answers of tools."""
    broadcast = server.core.letta_messages.send(LOCAL_CALLER, agent_id, [UserMessage(content="hi")], attempt())
    server.drain(broadcast)
    rows = response_of(server.state(broadcast.ref), AnswerTool()).messages
    return [row for row in rows if row.message_type == "tool_return_message"]


def names(agent: LettaAgent) -> list[str]:
    return [each.name for each in tools_shown(agent, "local") if each.tool_type == "custom"]


def test_an_agent_calls_its_tool_with_its_variables_and_the_model_sees_the_result(make: Make) -> None:
    server = make(roll(), send("done"))
    server.tools.runner = runner = Recorded()
    made = tool(server).tool
    variables = {"KEY": SECRET}
    one = agent(server, made.tool_id, tool_exec_environment_variables=variables)
    (returned,) = talk(server, one.agent_id)
    assert (returned.tool_return, returned.status) == ("4", "success")
    assert (returned.stdout, returned.stderr) == (("rolling\n",), ())
    ((called, tenant),) = runner.calls
    assert (called.name, called.source, called.arguments) == ("roll", made.source_code, {"sides": 6})
    assert (called.environment, called.agent_state, tenant) == (variables, None, "local")
    offered = {each.name: each for each in server.inference.requests[0].tools}["roll"]
    properties = (offered.input_schema or {})["properties"]
    assert list(properties) == ["inner_thoughts", "sides", "request_heartbeat"]
    assert [str(each.content) for each in server.inference.requests[1].messages if each.role == "tool"] == ["4"]
    shown = state_of(server.core.letta_agents.read(LOCAL_CALLER, one.agent_id), "local").model_dump_json()
    assert (SECRET in shown, '"KEY"' in shown, "**********" in shown) == (False, True, True)
    assert SECRET not in str(server.inference.requests)


def test_a_function_with_the_parameter_gets_the_state_of_its_agent(make: Make) -> None:
    server = make(roll(sides=6), send("done"))
    server.tools.runner = runner = Recorded()
    new = CreateTool.model_validate({"source_code": source(parameters="sides: int, agent_state: 'AgentState'")})
    made = server.core.letta_tools.create(LOCAL_CALLER, new.to_new(), attempt()).tool
    blocks = [{"label": "human", "value": "Bob", "limit": 100}]
    one = agent(server, made.tool_id, memory_blocks=blocks, tags=["a"], system="Hi.", name="Sam")
    talk(server, one.agent_id)
    assert runner.calls[0][0].agent_state == {
        "id": f"agent-{one.agent_id}",
        "name": "Sam",
        "system": "Hi.",
        "description": None,
        "tags": ["a"],
        "metadata_": None,
        "memory": {"blocks": blocks},
    }


def test_an_error_and_tools_that_are_off_are_answers_to_the_model(make: Make) -> None:
    server = make(roll(), send("one"), roll(), send("two"))
    one = agent(server, tool(server).tool.tool_id)
    server.tools.runner = Recorded(PythonOutcome("Error executing function roll: E: no", 36, is_error=True))
    (failed,) = talk(server, one.agent_id)
    assert (failed.tool_return, failed.status) == ("Error executing function roll: E: no", "error")
    server.tools.runner = None
    (off,) = talk(server, one.agent_id)
    assert (off.tool_return, off.status, off.stdout) == (OFF, "error", None)
    run = RunTool.model_validate({"source_code": source(), "args": {}}).to_run()
    outcome = server.core.python_tools.run_source(LOCAL_CALLER, run, None).outcome
    assert (outcome.text, outcome.is_error) == (OFF, True)


def test_the_agents_api_runs_the_same_tool_of_the_same_agent(make: Make) -> None:
    server = make(call("roll", "r", sides=6), "done")
    server.tools.runner = runner = Recorded()
    made = tool(server).tool
    one = agent(server, made.tool_id, tool_exec_environment_variables={"KEY": SECRET})
    server.whole_turn(server.session(one.agent_id))
    ((called, _),) = runner.calls
    assert (called.name, called.arguments, called.environment) == ("roll", {"sides": 6}, {"KEY": SECRET})


def test_a_tool_has_one_name_in_its_tenant_and_is_created_once_for_its_key(make: Make) -> None:
    server = make()
    tools = server.core.letta_tools
    new = CreateTool.model_validate({"source_code": source()}).to_new()
    by = attempt("same", key="k")
    first, again = (tools.create(LOCAL_CALLER, new, by).tool for _ in range(2))
    assert first == again
    with pytest.raises(IdempotencyMismatch):
        tools.create(LOCAL_CALLER, new, attempt("other", key="k"))
    for taken in ("roll", "send_message"):
        with pytest.raises(ToolNameTaken):
            tool(server, taken)
    assert tool(server, "roll", STRANGER).tool.tool_id != first.tool_id
    assert tools.id_named(LOCAL_CALLER, "roll") == first.tool_id
    other = tool(server, "other").tool
    rename = UpdateTool.model_validate({"source_code": source("roll")}).to_change()
    with pytest.raises(ToolNameTaken):
        tools.change(LOCAL_CALLER, other.tool_id, rename)
    with pytest.raises(ToolNameTaken):
        tools.change(LOCAL_CALLER, other.tool_id, lambda each: each.model_copy(update={"name": "send_message"}))
    moved = tools.change(LOCAL_CALLER, other.tool_id, lambda each: each.model_copy(update={"name": "third"}))
    assert tools.id_named(LOCAL_CALLER, "third") == moved.tool.tool_id == other.tool_id
    assert tool(server, "other").tool.name == "other"


def test_a_second_upsert_replaces_the_tool_under_its_id(make: Make) -> None:
    server = make()
    upsert = server.core.letta_tools.upsert
    first = upsert(LOCAL_CALLER, CreateTool.model_validate({"source_code": source()}).to_new(), attempt()).tool
    new = CreateTool.model_validate({"source_code": source(text="Roll it."), "tags": ["a"]}).to_new()
    second = upsert(LOCAL_CALLER, new, attempt()).tool
    assert (second.tool_id, second.description, second.tags) == (first.tool_id, "Roll it.", ("a",))
    base = CreateTool.model_validate({"source_code": source("send_message")}).to_new()
    with pytest.raises(ToolNameTaken):
        upsert(LOCAL_CALLER, base, attempt())


def test_a_foreign_tool_is_a_missing_one(make: Make) -> None:
    server = make()
    tools, made = server.core.letta_tools, tool(server).tool
    change = UpdateTool.model_validate({"tags": ["x"]}).to_change()
    for act in (
        lambda: tools.read(STRANGER, made.tool_id),
        lambda: tools.id_named(STRANGER, "roll"),
        lambda: tools.change(STRANGER, made.tool_id, change),
        lambda: tools.delete(STRANGER, made.tool_id),
        lambda: list(tools.list(STRANGER, ToolQuery(5, made.tool_id))),
        lambda: agent(server, made.tool_id, caller=STRANGER),
        lambda: agent(server, caller=STRANGER, tools=["roll"]),
    ):
        with pytest.raises(NotFound):
            act()
    assert list(tools.list(STRANGER, ToolQuery(50))) == list(ALL_TOOLS)
    config = AgentConfig(model="scripted", instructions="", toolgroups=(toolgroup_of_custom(made.tool_id),))
    with pytest.raises(InvalidRequest):
        server.core.agents.create(STRANGER, config, attempt())
    assert server.core.agents.create(LOCAL_CALLER, config, attempt())


@pytest.mark.parametrize(("replaces", "text"), [(True, "Second."), (False, "First.")])
def test_an_upsert_meets_a_tool_that_another_one_creates(make: Make, replaces: bool, text: str) -> None:
    server, other = make(), make()
    first: list[StoredTool] = []
    create = partial(other.core.letta_tools.upsert, LOCAL_CALLER, new_tool("First."), attempt())
    server.store.after(reads_the_name, lambda: first.append(create()))
    second = server.core.letta_tools.upsert(LOCAL_CALLER, new_tool("Second."), attempt(), replaces=replaces)
    assert second.tool == first[0].tool.model_copy(update={"source_code": source(text=text), "description": text})


def test_an_upsert_meets_a_tool_that_is_deleted(make: Make) -> None:
    server, other = make(), make()
    before = tool(other).tool.tool_id
    server.store.after(reads_the_name, lambda: other.core.letta_tools.delete(LOCAL_CALLER, before))
    after = server.core.letta_tools.upsert(LOCAL_CALLER, new_tool(), attempt()).tool.tool_id
    assert after not in ("", before)


def test_equal_upserts_at_once_make_one_tool(make: Make) -> None:
    server = make()
    upsert = server.core.letta_tools.upsert
    made = together(*(lambda: upsert(LOCAL_CALLER, new_tool(), attempt()) for _ in range(4)))
    assert len({each.tool.tool_id for each in made}) == 1


def test_a_deleted_tool_is_taken_out_of_its_agents_and_their_turns_go_on(make: Make) -> None:
    server = make(send("one"))
    made, kept = tool(server).tool, tool(server, "kept").tool
    one = agent(server, made.tool_id, kept.tool_id)
    assert names(one) == ["roll", "kept"]
    server.core.letta_tools.delete(LOCAL_CALLER, made.tool_id)
    assert names(server.core.letta_agents.read(LOCAL_CALLER, one.agent_id)) == ["kept"]
    talk(server, one.agent_id)
    offered = {each.name for each in server.inference.requests[0].tools}
    assert ("roll" in offered, "kept" in offered) == (False, True)
    assert names(changed(server, one.agent_id, name="Other")) == ["kept"]
    again = tool(server).tool
    assert names(server.core.letta_agents.read(LOCAL_CALLER, one.agent_id)) == ["kept"]
    assert names(changed(server, one.agent_id, tool_ids=[f"tool-{again.tool_id}"])) == ["roll"]
    with pytest.raises(NotFound):
        server.core.letta_tools.delete(LOCAL_CALLER, made.tool_id)


def test_a_change_of_a_tool_is_in_the_next_turn(make: Make) -> None:
    server = make(roll(), send("one"), roll(), send("two"))
    server.tools.runner = runner = Recorded()
    made = tool(server).tool
    one = agent(server, made.tool_id)
    talk(server, one.agent_id)
    change = UpdateTool.model_validate({"source_code": source(text="New."), "return_char_limit": 7}).to_change()
    server.core.letta_tools.change(LOCAL_CALLER, made.tool_id, change)
    talk(server, one.agent_id)
    assert [("New." in called.source, called.most_characters) for called, _ in runner.calls] == [
        (False, 6_000),
        (True, 7),
    ]


def test_tools_are_listed_in_parts_after_the_base_tools(make: Make) -> None:
    server = make()
    made = [tool(server, f"own_{number}").tool.tool_id for number in range(3)]
    every = [*ALL_TOOLS, *made]

    def part(limit: int, after: str | None = None) -> list[str]:
        found = server.core.letta_tools.list(LOCAL_CALLER, ToolQuery(limit, after))
        return [each if isinstance(each, str) else each.tool.tool_id for each in found]

    assert part(50) == every
    for limit in (1, 2, 4, 5, 7):
        seen: list[str] = []
        while found := part(limit, (tool_id(seen[-1]) if seen[-1] in ALL_TOOLS else seen[-1]) if seen else None):
            assert len(found) <= limit
            seen += found
        assert seen == every
    with pytest.raises(NotFound):
        part(1, "none")


def test_variables_are_replaced_kept_and_cleared(make: Make) -> None:
    server = make(roll(), send("one"))
    server.tools.runner = runner = Recorded()
    one = agent(server, tool(server).tool.tool_id, tool_exec_environment_variables={"A": "1", "B": "2"})
    keys = lambda found: [each.key for each in found.fields.environment]  # noqa: E731 - of two agents
    assert keys(changed(server, one.agent_id, name="Other")) == ["A", "B"]
    assert keys(changed(server, one.agent_id, tool_exec_environment_variables={"B": "3"})) == ["B"]
    talk(server, one.agent_id)
    assert runner.calls[0][0].environment == {"B": "3"}
    assert keys(changed(server, one.agent_id, tool_exec_environment_variables={})) == []


def test_a_turn_cannot_add_a_tool_that_its_agent_lacks(make: Make) -> None:
    server = make("ok")
    group = toolgroup_of_custom(tool(server).tool.tool_id)
    with pytest.raises(Unsupported):
        server.start(server.session(), toolgroups=(group,))
    server.whole_turn(server.session(toolgroups=(group,)), toolgroups=(group,))


def test_a_hidden_tool_is_attached_by_no_route(make: Make) -> None:
    server = make()
    ann, bob = (Caller(tenant="local", principal=name, teams=(name,)) for name in ("ann", "bob"))
    made = tool(server, caller=ann).tool
    own = server.core.letta_agents.create(
        bob, CreateLettaAgent.model_validate({"llm": "scripted"}).to_new("B"), attempt()
    )
    group = (toolgroup_of_custom(made.tool_id),)
    for act in (
        lambda: agent(server, made.tool_id, caller=bob),
        lambda: agent(server, caller=bob, tools=["roll"]),
        lambda: server.core.letta_agents.change_config(bob, own.agent_id, lambda _: {"toolgroups": group}),
    ):
        with pytest.raises(NotFound):
            act()
    config = AgentConfig(model="scripted", instructions="", toolgroups=group)
    with pytest.raises(InvalidRequest):
        server.core.agents.create(bob, config, attempt())
    with pytest.raises(ToolNameTaken):
        server.core.letta_tools.upsert(bob, CreateTool.model_validate({"source_code": source()}).to_new(), attempt())
    assert len(list(server.core.letta_tools.list(bob, ToolQuery(50)))) == len(ALL_TOOLS)


def test_only_the_owner_changes_a_tool_that_others_see(make: Make) -> None:
    server = make()
    made = tool(server, caller=Caller(tenant="local", principal="ann", teams=("team",))).tool
    peer = Caller(tenant="local", principal="bob", teams=("team",))
    with pytest.raises(Forbidden):
        server.core.letta_tools.delete(peer, made.tool_id)
    with pytest.raises(Forbidden):
        server.core.letta_tools.upsert(peer, CreateTool.model_validate({"source_code": source()}).to_new(), attempt())


def test_a_source_of_any_permitted_length_is_stored_and_read(make: Make) -> None:
    server = make()
    long = source() + f"# {'ü' * 99_000}"
    made = server.core.letta_tools.create(
        LOCAL_CALLER, CreateTool.model_validate({"source_code": long}).to_new(), attempt()
    )
    assert server.core.letta_tools.read(LOCAL_CALLER, made.tool.tool_id).tool.source_code == long
    (listed,) = list(server.core.letta_tools.list(LOCAL_CALLER, ToolQuery(50)))[len(ALL_TOOLS) :]
    assert not isinstance(listed, str)
    assert listed.tool == made.tool
    server.core.letta_tools.delete(LOCAL_CALLER, made.tool.tool_id)
    assert len(list(server.core.letta_tools.list(LOCAL_CALLER, ToolQuery(50)))) == len(ALL_TOOLS)
