"""Agents that send messages to each other, over both stores: answers, circles, depth, access, parallel calls, crashes.

Covers: services/letta/multi_agent, services/tools/toolboxes, services/tools/tool_running, bootstrap/services/turns,
domain/letta/agents
"""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from threading import Barrier
from typing import Any

import pytest

from tests.fakes.models.scripted import Reply, call
from tests.support.engine.either_store import Make
from tests.support.engine.harness import (
    LEASE_S,
    Held,
    Server,
    attempt,
    completes_turn,
    eventually,
    saves_step,
    together,
)
from turnstone.dialects.letta.requests import CreateLettaAgent
from turnstone.dialects.letta.tools import base_tool
from turnstone.domain.access.caller import LOCAL_CALLER, Caller
from turnstone.domain.errors import ModelFailed
from turnstone.domain.letta.agents import MULTI_AGENT_TOOLS, LettaAgent, main_session
from turnstone.domain.messages.messages import SystemMessage, UserMessage
from turnstone.domain.models.requests import InferenceRequest
from turnstone.domain.refs import SessionRef
from turnstone.domain.turns.turns import TurnState
from turnstone.domain.values.content import text_of
from turnstone.services.letta import multi_agent
from turnstone.services.streams.broadcast import TurnBroadcast

CALL, NOTIFY, CALL_BY_TAGS = MULTI_AGENT_TOOLS
Acts = dict[str, Callable[[InferenceRequest], Reply]]


def sent(text: str, number: int = 0) -> Reply:
    return call("send_message", f"s{number}", inner_thoughts="Hm.", message=text)


class Model:
    """Acts as each agent by the name in its instructions; without an act it repeats the answer of its tool."""

    def __init__(self) -> None:
        self.acts: Acts = {}
        self.seen: list[str] = []

    def __call__(self, request: InferenceRequest) -> Reply:
        assert isinstance(request.messages[0], SystemMessage)
        name = text_of(request.messages[0].content).split()[0]
        text = text_of(request.messages[-1].content)
        self.seen.append(f"{name}: {text}")
        if (request.messages[-2].role == "tool" and "another inference follows" in text) or "tool call failed" in text:
            return sent(f"{name} got {text_of(request.messages[-2].content)}", len(self.seen))
        act = self.acts.get(name)
        return act(request) if act else sent(f"{name} answers", len(self.seen))

    def calls(self, name: str, other: LettaAgent, tool: str = CALL) -> None:
        self.acts[name] = lambda _: call(
            tool,
            f"c-{name}",
            inner_thoughts="Hm.",
            message=f"from {name}",
            other_agent_id=f"agent-{other.agent_id}",
            request_heartbeat=True,
        )


@pytest.fixture
def model() -> Model:
    return Model()


def create(server: Server, name: str, caller: Caller = LOCAL_CALLER, **fields: Any) -> LettaAgent:
    given = {"llm_config": {"model": "scripted"}, "memory_blocks": [], "include_multi_agent_tools": True}
    body = CreateLettaAgent.model_validate({**given, "system": f"{name} is here. {{CORE_MEMORY}}", **fields})
    return server.core.letta_agents.create(caller, body.to_new(name), attempt())


def begin(server: Server, agent: LettaAgent, caller: Caller = LOCAL_CALLER) -> TurnBroadcast:
    return server.core.letta_messages.send(caller, agent.agent_id, [UserMessage(content="hi")], attempt())


def answer(server: Server, agent: LettaAgent, caller: Caller = LOCAL_CALLER) -> str:
    turn = begin(server, agent, caller)
    server.drain(turn)
    return text_of(server.state(turn.ref).turn.output_message.content)


def turns_of(server: Server, agent: LettaAgent) -> list[TurnState]:
    session_id = main_session(agent.agent_id, 0)
    return server.states(SessionRef(tenant=LOCAL_CALLER.tenant, agent_id=agent.agent_id, session_id=session_id))


def made(make: Make, model: Model, **settings: Any) -> Server:
    return make(*[model] * 60, **settings)


def test_an_agent_gets_the_answer_of_another(make: Make, model: Model) -> None:
    server = made(make, model)
    ann, bob = create(server, "Ann"), create(server, "Bob")
    model.calls("Ann", bob)
    assert answer(server, ann) == "Ann got Bob answers"
    (turn,) = turns_of(server, bob)
    assert turn.chain == (ann.agent_id,)
    assert f"'agent-{ann.agent_id}'" in text_of(turn.turn.input_messages[0].content)
    assert text_of(turn.turn.input_messages[0].content).endswith("\nfrom Ann")


def test_a_message_without_an_answer_begins_a_turn_of_its_own(make: Make, model: Model) -> None:
    server = made(make, model)
    ann, bob = create(server, "Ann"), create(server, "Bob")
    model.calls("Ann", bob, NOTIFY)
    assert answer(server, ann) == f"Ann got The agent '{bob.agent_id}' has the message."
    assert [turn.chain for turn in turns_of(server, bob)] == [(ann.agent_id,)]


def test_agents_with_all_tags_answer_each(make: Make, model: Model) -> None:
    server = made(make, model)
    ann = create(server, "Ann", tags=["a", "b"])
    create(server, "Bob", tags=["a", "b"])
    create(server, "Cid", tags=["b", "a", "c"])
    create(server, "Dan", tags=["a"])
    model.acts["Ann"] = lambda _: call(
        CALL_BY_TAGS, "c", inner_thoughts="", message="hi", tags=["a", "b"], request_heartbeat=True
    )
    found = json.loads(answer(server, ann).removeprefix("Ann got "))
    assert sorted((each["name"], each["response"]) for each in found) == [
        ("Bob", "Bob answers"),
        ("Cid", "Cid answers"),
    ]


@pytest.mark.parametrize("tags", [None, [], "a", [1], [""]])
def test_tags_that_are_none_are_refused(make: Make, model: Model, tags: Any) -> None:
    server = made(make, model)
    ann = create(server, "Ann")
    model.acts["Ann"] = lambda _: call(CALL_BY_TAGS, "c", inner_thoughts="", message="hi", tags=tags)
    assert "tags: must be" in answer(server, ann)


def test_a_message_to_more_agents_than_one_call_reaches_is_refused(make: Make, model: Model) -> None:
    server = made(make, model)
    ann = create(server, "Ann")
    for number in range(multi_agent.MOST_AGENTS + 1):
        create(server, f"B{number}", tags=["a"])
    model.acts["Ann"] = lambda _: call(CALL_BY_TAGS, "c", inner_thoughts="", message="hi", tags=["a"])
    assert "name more of them" in answer(server, ann)


def test_a_circle_is_refused(make: Make, model: Model) -> None:
    server = made(make, model)
    ann, bob = create(server, "Ann"), create(server, "Bob")
    model.calls("Ann", bob)
    model.calls("Bob", ann)
    assert answer(server, ann) == f"Ann got Bob got The agent '{ann.agent_id}' waits for this answer, so it can't " + (
        "get a message now."
    )
    assert len(turns_of(server, ann)) == 1
    model.calls("Ann", ann)
    assert "waits for this answer" in answer(server, ann)


def test_the_fourth_agent_calls_none(make: Make, model: Model) -> None:
    server = made(make, model)
    agents = [create(server, name) for name in ("A", "B", "C", "D", "E")]
    for caller, other in pairwise(agents):
        model.calls(str(caller.config.name), other)
    given = answer(server, agents[0])
    assert given.startswith("A got B got C got D got Agents call each other 3 times in a row at most")
    assert [len(turns_of(server, agent)) for agent in agents] == [1, 1, 1, 1, 0]


def test_a_hidden_agent_a_foreign_one_and_a_missing_one_give_one_refusal(make: Make, model: Model) -> None:
    server = made(make, model, owner_only=True)
    eve = Caller(tenant=LOCAL_CALLER.tenant, principal="eve")
    ann, secret = create(server, "Ann"), create(server, "Secret", eve)
    foreign = create(server, "Foreign", Caller(tenant="another", principal="local"))
    given = []
    for other in (secret, foreign):
        model.calls("Ann", other)
        given.append(answer(server, ann).replace(other.agent_id, "ID"))
        assert not any(each.startswith(str(other.config.name)) for each in model.seen)
    missing = ann.model_copy(update={"agent_id": "00000000-0000-0000-0000-000000000000"})
    model.calls("Ann", missing)
    given.append(answer(server, ann).replace(missing.agent_id, "ID"))
    assert given == ["Ann got agent 'ID' not found"] * 3


@pytest.mark.parametrize(
    ("owner", "sender", "is_reached"), [("cid", "red", False), ("red", "bob", False), ("red", "red", True)]
)
def test_owner_and_sender_both_see_the_other_agent(
    make: Make, model: Model, owner: str, sender: str, is_reached: bool
) -> None:
    server = made(make, model)
    callers = {name: Caller(tenant=LOCAL_CALLER.tenant, principal=name) for name in ("red", "bob", "cid")}
    of_team = callers["red"].model_copy(update={"teams": ("red",)})
    secret, shared = create(server, "Secret", of_team), create(server, "Shared", callers[owner])
    model.calls("Shared", secret)
    given = answer(server, shared, callers[sender])
    assert given == ("Shared got Secret answers" if is_reached else f"Shared got agent '{secret.agent_id}' not found")


def test_as_many_nested_calls_as_slots_end(make: Make, model: Model) -> None:
    server = made(make, model, max_running_turns=4)
    most = server.core.foundation.settings.tenant_turns
    assert most > 1
    pairs = [(create(server, f"A{n}"), create(server, f"B{n}")) for n in range(most)]
    meeting = Barrier(most, timeout=20)
    for caller, other in pairs:
        model.calls(str(caller.config.name), other)
        model.acts[str(other.config.name)] = lambda _: (meeting.wait(), sent("met", 9))[1]
    given = together(*(lambda agent=agent: answer(server, agent) for agent, _ in pairs))
    assert [each.endswith("got met") for each in given] == [True] * most


def test_a_busy_agent_is_awaited_and_then_refused(make: Make, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    server = made(make, model)
    ann, bob = create(server, "Ann"), create(server, "Bob")
    held = Held(sent("done"))
    model.acts["Bob"] = held
    running = begin(server, bob)
    held.wait()
    model.calls("Ann", bob)
    monkeypatch.setattr(multi_agent, "PATIENCE_S", 0.05)
    assert answer_of_begun(server, begin(server, ann)).endswith("is busy; try again later.")
    monkeypatch.setattr(multi_agent, "PATIENCE_S", 20.0)
    waiting = begin(server, ann)
    eventually(lambda: server.core.session_queues.waiting == 1)
    del model.acts["Bob"]
    held.open()
    assert answer_of_begun(server, waiting) == "Ann got Bob answers"
    server.drain(running)


def answer_of_begun(server: Server, turn: TurnBroadcast) -> str:
    list(turn.wait())
    return text_of(server.state(turn.ref).turn.output_message.content)


def test_a_failed_turn_of_the_other_agent_is_a_failed_call(make: Make, model: Model) -> None:
    server = made(make, model)
    ann, bob = create(server, "Ann"), create(server, "Bob")
    model.calls("Ann", bob)
    model.acts["Bob"] = lambda _: ModelFailed("overheated")
    assert answer(server, ann).startswith("Ann got The other agent gave no answer: ")


def test_a_message_is_sent_once_although_the_process_died_before_the_answer_was_stored(
    make: Make, model: Model
) -> None:
    dying = made(make, model)
    ann, bob = create(dying, "Ann"), create(dying, "Bob")
    model.calls("Ann", bob)
    ended: list[int] = []
    dying.store.after(completes_turn, lambda: ended.append(1))
    dying.store.before(lambda each: saves_step(each) and bool(ended), dying.store.die)
    turn = begin(dying, ann)
    dying.drain(turn)
    heir = made(make, model)
    heir.clock.advance(LEASE_S)  # type: ignore[attr-defined]
    heir.core.recovery.reconcile(turn.ref)
    heir.settle()
    assert heir.state(turn.ref).turn.output_message.content == "Ann got Bob answers"
    assert len(turns_of(heir, bob)) == 1


def test_the_turn_of_another_agent_continues_with_its_callers_after_a_crash(make: Make, model: Model) -> None:
    dying = made(make, model)
    ann, bob = create(dying, "Ann"), create(dying, "Bob")
    model.calls("Ann", bob)
    dying.store.before(lambda each: any("Bob" in seen for seen in model.seen), dying.store.die)
    turn = begin(dying, ann)
    dying.drain(turn)
    heir = made(make, model)
    heir.clock.advance(LEASE_S)  # type: ignore[attr-defined]
    (nested,) = turns_of(heir, bob)
    session_id = main_session(bob.agent_id, 0)
    ref = SessionRef(tenant=LOCAL_CALLER.tenant, agent_id=bob.agent_id, session_id=session_id)
    heir.core.recovery.reconcile(ref.turn(nested.turn_id))
    heir.core.recovery.reconcile(turn.ref)
    heir.settle()
    assert heir.state(turn.ref).turn.output_message.content == "Ann got Bob answers"
    assert [(each.turn_id, each.chain) for each in turns_of(heir, bob)] == [(nested.turn_id, (ann.agent_id,))]


def test_the_tools_are_added_by_their_flag_and_shown_with_their_kind(make: Make, model: Model) -> None:
    server = made(make, model)
    ann = create(server, "Ann", include_base_tools=False)
    kinds = {name: base_tool(name, "t", None).tool_type for name in (CALL, "send_message", "core_memory_replace")}
    assert list(kinds.values()) == ["letta_multi_agent_core", "letta_core", "letta_memory_core"]
    assert ann.config.toolgroups == tuple(f"letta::multi_agent/{name}" for name in MULTI_AGENT_TOOLS)
    plain = create(server, "Bob", include_multi_agent_tools=False)
    assert not any("multi_agent" in str(group) for group in plain.config.toolgroups)
