"""Toolgroups whose tools are services of the server: in turns over both stores, in lists, and for registration.

Covers: services/tools/own_toolboxes, services/tools/lookup, services/tools/tool_running, bootstrap/services/registries
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from tests.fakes.models.scripted import ScriptedTools, call, calls
from tests.fakes.tools.notes import NOTES, NotesToolbox, notes_of
from tests.support.engine.either_store import Make
from tests.support.engine.harness import (
    LEASE_S,
    Harness,
    Server,
    answer,
    attempt,
    client_tool,
    saves_step,
    serving,
    turn_in,
)
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.errors import InvalidRequest, Unsupported
from turnstone.domain.memory.lent_banks import RAG
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.provider_data import NO_PROVIDER_DATA
from turnstone.domain.refs import SessionRef
from turnstone.domain.registry.registry import BUILTIN, Toolgroup
from turnstone.domain.turns.turns import NewTurn, ToolExecutionStep, TurnStatus
from turnstone.services.tools.own_toolboxes import OwnToolboxes, OwnToolgroup
from turnstone.store.layout.frames import private_part
from turnstone.store.layout.keys import turn_key

MEET_S = 10.0
WRITE = call("write", "w", text="tea")
BOTH = ["dice", NOTES]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Harness]]:
    yield from serving(tmp_path)


def toolbox_of(server: Server) -> NotesToolbox:
    box = server.core.registries.tool_kinds.build(builtin(NOTES))
    assert isinstance(box, NotesToolbox)
    return box


def builtin(name: str, registered_as: str | None = None) -> Toolgroup:
    return Toolgroup(identifier=registered_as or name, provider_resource_id=name, provider_id=BUILTIN)


def answers_in(server: Server, ref: SessionRef) -> list[str]:
    steps = turn_in(server.whole_turn(ref)).steps
    done = (step for step in steps if isinstance(step, ToolExecutionStep))
    return [str(response.content) for step in done for response in step.tool_responses]


def test_a_toolbox_reads_and_writes_through_its_service_for_the_session_that_calls(make: Make) -> None:
    server = make(WRITE, call("read", "r"), "done", own_toolgroups=notes_of)
    ref = server.session(toolgroups=[NOTES])
    assert answers_in(server, ref) == ["written", "tea"]
    box = toolbox_of(server)
    assert [(each.ref, each.chain, each.asker.tenant) for each in box.invocations] == [(ref, (), ref.tenant)] * 2
    assert list(box.notes.read(ref.tenant).values()) == ["tea"]
    assert {asker.tenant for asker in box.listed_for} == {ref.tenant}, "also where the agent was created"
    server.assert_whole(ref)


def test_a_toolbox_runs_beside_the_tools_of_adapters(make: Make) -> None:
    server = make(calls(WRITE, call("roll", "d")), "done", own_toolgroups=notes_of)
    meeting = Barrier(2, timeout=MEET_S)  # broken unless both are running
    toolbox_of(server).on_invoke = lambda _: meeting.wait()
    server.tools._functions["roll"] = lambda _: (meeting.wait(), "4")[1]
    assert answers_in(server, server.session(toolgroups=BOTH)) == ["written", "4"]


def test_a_call_has_the_same_key_session_and_chain_after_a_takeover(make: Make) -> None:
    dying = make(WRITE, own_toolgroups=notes_of)
    ref = dying.session(toolgroups=[NOTES])
    dying.store.before(lambda each: saves_step(each) and bool(toolbox_of(dying).invocations), dying.store.die)
    new = NewTurn(messages=(UserMessage(content="note it"),), chain=("first", "second"))
    turn = dying.turns.start(LOCAL_CALLER, ref, new, attempt())
    dying.drain(turn)
    heir = make("done", own_toolgroups=notes_of)
    heir.clock.advance(LEASE_S)  # type: ignore[attr-defined]
    heir.core.recovery.reconcile(turn.ref)
    heir.settle()
    assert heir.state(turn.ref).status is TurnStatus.COMPLETED
    first, again = toolbox_of(dying).invocations + toolbox_of(heir).invocations
    assert (again.idempotency_key, again.ref) == (first.idempotency_key, ref)
    assert first.chain == again.chain == heir.state(turn.ref).chain == ("first", "second")
    assert list(toolbox_of(heir).notes.read(ref.tenant)) == [first.idempotency_key]


def test_the_turn_of_another_agent_has_its_callers_and_refuses_a_circle(make: Make) -> None:
    script: list[Any] = []
    server = make(*[lambda _, at=at: script[at] for at in range(6)], own_toolgroups=notes_of)
    first, second, third = (server.session(toolgroups=[NOTES]) for _ in range(3))
    following = (second.agent_id, third.agent_id, first.agent_id)
    script += [call("ask", f"c{at}", agent_id=agent_id) for at, agent_id in enumerate(following)]
    script += ["third", "second", "first"]
    assert answers_in(server, first) == ["second"]
    chains = [each.chain for each in toolbox_of(server).invocations]
    assert chains == [(), (first.agent_id,), (first.agent_id, second.agent_id)]
    refusals = [str(each.content) for each in server.inference.requests[3].messages]
    assert any("is among the callers" in text for text in refusals), "the third agent called the first"


def test_a_turn_without_callers_stores_no_chain(serve: Callable[..., Harness]) -> None:
    server = serve(["done"])
    turn = server.start(server.session())
    server.drain(turn)
    record = server.records.get(turn_key(turn.ref, turn.ref.turn_id))
    assert record is not None
    assert "chain" not in private_part(record.body)


def test_a_call_costs_no_store_call_besides_its_service(make: Make) -> None:
    server = make(
        *(step for name in ("roll", "read") for step in (call(name, "c"), "done") * 2), own_toolgroups=notes_of
    )
    verbs = []
    for group in BOTH:
        ref = server.session(toolgroups=[group])
        server.whole_turn(ref)
        before = len(server.store.calls)
        server.whole_turn(ref)
        verbs.append([each.verb for each in server.store.calls[before:]])
    of_adapter, of_service = verbs
    of_service.remove("range")  # the read of the notes
    assert of_service == of_adapter


def test_a_call_after_the_clients_answer_has_the_session_and_the_chain(make: Make) -> None:
    server = make(call("look", "l"), WRITE, "done", own_toolgroups=notes_of)
    ref = server.session(toolgroups=[NOTES], client_tools=(client_tool(),))
    new = NewTurn(messages=(UserMessage(content="look"),), chain=("first",))
    paused = server.turns.start(LOCAL_CALLER, ref, new, attempt())
    server.drain(paused)
    server.drain(server.resume(paused.ref, answer("l")))
    assert [(each.ref, each.chain) for each in toolbox_of(server).invocations] == [(ref, ("first",))]


@pytest.mark.parametrize("is_listed", [False, True])
def test_lists_show_a_group_only_if_it_is_marked_so(serve: Callable[..., Harness], is_listed: bool) -> None:
    server = serve([], {"dice": {"roll": lambda _: "4"}}, own_toolgroups=partial(notes_of, is_listed=is_listed))
    toolgroups = server.core.toolgroups
    listed = [RAG, NOTES] if is_listed else [RAG]
    assert [group.identifier for group in toolgroups.list(LOCAL_CALLER)] == ["dice", *listed]
    assert [group.identifier for group, _ in toolgroups.tools(LOCAL_CALLER, NO_PROVIDER_DATA)] == ["dice", *listed]
    assert toolgroups.get(LOCAL_CALLER, NOTES) == builtin(NOTES), "by its name it is found"
    with pytest.raises(Unsupported) as refused:
        toolgroups.tools(LOCAL_CALLER, NO_PROVIDER_DATA, ["nobody's"])
    assert (NOTES in str(refused.value)) is is_listed


def test_outside_of_turns_there_is_no_session(serve: Callable[..., Harness]) -> None:
    server = serve([], own_toolgroups=notes_of)
    _, result, has_failed = server.core.toolgroups.invoke(LOCAL_CALLER, f"{NOTES}/read", {}, attempt())
    assert (result.content, has_failed) == ("no notes", False)
    (invocation,) = toolbox_of(server).invocations
    assert (invocation.ref, invocation.chain, invocation.nested_chain) == (None, (), ())


def test_a_tenant_registers_no_such_group(serve: Callable[..., Harness]) -> None:
    server = serve([], own_toolgroups=notes_of)
    for group in (builtin(NOTES), builtin(NOTES, "mine")):
        with pytest.raises(Unsupported, match="belongs to a service of this server") as refused:
            server.core.toolgroups.register(LOCAL_CALLER, group, attempt())
        assert refused.value.location == ("toolgroup_id",)
    with pytest.raises(InvalidRequest, match="can't be redefined"):
        server.core.toolgroups.register(LOCAL_CALLER, builtin("dice", NOTES), attempt())
    server.core.toolgroups.unregister(LOCAL_CALLER, NOTES)
    assert server.core.toolgroups.get(LOCAL_CALLER, NOTES)


def test_an_entry_that_names_such_a_group_by_another_name_runs_nothing(serve: Callable[..., Harness]) -> None:
    """The entry may be that of a version in which the group could be registered."""
    before = serve([], own_toolgroups=partial(notes_of, may_be_registered=True))
    for group in (builtin(NOTES), builtin(NOTES, "mine")):
        before.core.toolgroups.register(LOCAL_CALLER, group, attempt())
    _, result, _ = before.core.toolgroups.invoke(LOCAL_CALLER, "mine/read", {}, attempt())
    assert result.content == "no notes"
    server = serve(["done"], own_toolgroups=notes_of)
    with pytest.raises(Unsupported, match="can't be registered"):
        server.core.toolgroups.invoke(LOCAL_CALLER, "mine/read", {}, attempt())
    with pytest.raises(Unsupported, match="can't be registered"):
        server.start(server.session(toolgroups=["mine"]))
    assert not toolbox_of(server).invocations


def test_a_name_belongs_to_one_group() -> None:
    own = OwnToolgroup("dice", lambda: pytest.fail("not built"))
    for kinds, toolgroups in ((ScriptedTools({"dice": {}}), [own]), (ScriptedTools({}), [own, own])):
        with pytest.raises(ValueError, match="one name"):
            OwnToolboxes(kinds, toolgroups)
