"""Turns with settings of their own: a snapshot of the configuration, and the policies of other APIs, in any process.

Covers: domain/turns/turn_settings, domain/turns/loop_policies, services/turns/turns, services/turns/recovery,
store/sessions/turn_records
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.scripted import call
from tests.support.engine.harness import (
    Harness,
    answer,
    attempt,
    client_tool,
    contents,
    outline,
    saves_step,
    serving,
)
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.agents.agents import AgentConfig, SamplingParams, TopP
from turnstone.domain.errors import InvalidRequest, TurnNotAwaiting
from turnstone.domain.messages.messages import Message, SystemMessage, ToolResponseMessage, UserMessage
from turnstone.domain.refs import SessionRef, TurnRef
from turnstone.domain.turns.loop_policies import LETTA, RESPONSES
from turnstone.domain.turns.turn_settings import TurnDocument
from turnstone.domain.turns.turns import NewTurn, TurnState, TurnStatus
from turnstone.ports.records import Put
from turnstone.store.layout.keys import agent_key, turn_key

VIEWING = call("look", "c1")
SECRET = "key-of-the-tool"
SEARCH = {"type": "brave_search", "api_key": SECRET}


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Any]:
    yield from serving(tmp_path)


def config(**fields: Any) -> AgentConfig:
    return AgentConfig(**{"model": "scripted", "instructions": "Own.", "client_tools": (client_tool(),), **fields})


def start(server: Harness, ref: SessionRef, message: str | Sequence[Message] = "hello", **settings: Any) -> TurnRef:
    messages = (UserMessage(content=message),) if isinstance(message, str) else tuple(message)
    broadcast = server.turns.start(LOCAL_CALLER, ref, NewTurn(messages=messages, **settings), attempt())
    server.drain(broadcast)
    return broadcast.ref


def change_agent(server: Harness, ref: SessionRef) -> None:
    """Change the instructions in the record of the agent."""
    record = server.records.get(agent_key(ref.tenant, ref.agent_id))
    assert record is not None
    body = record.body.replace(b"Old.", b"New.")
    server.records.write([Put(record.key, body, record.attributes)])


@pytest.mark.parametrize("settings", [{"keeps_config": True}, {"config": config(instructions="Old.")}])
def test_a_turn_with_a_snapshot_is_resumed_with_it_after_its_agent_changed(
    serve: Any, settings: dict[str, Any]
) -> None:
    server = serve([VIEWING, "done"])
    ref = server.session(instructions="Old.", client_tools=(client_tool(),))
    turn = start(server, ref, **settings)
    change_agent(server, ref)
    other = server.another(["done", "next"])
    other.drain(other.resume(turn, answer("c1")))
    start(other, ref)
    assert [contents(request.messages)[0] for request in other.inference.requests] == ["Old.", "New."]


def test_a_turn_without_a_snapshot_follows_its_agent(serve: Any) -> None:
    server = serve([VIEWING])
    ref = server.session(instructions="Old.", client_tools=(client_tool(),))
    turn = start(server, ref)
    change_agent(server, ref)
    other = server.another(["done"])
    other.drain(other.resume(turn, answer("c1")))
    assert contents(other.inference.requests[0].messages)[0] == "New."
    assert b"config" not in server.records.get(turn_key(ref, turn.turn_id)).body.partition(b"\n")[0]


def test_a_takeover_continues_with_snapshot_and_policy(serve: Any) -> None:
    tools = {"shop": {"note": lambda _: "ok", "send_message": lambda _: "None"}}
    server = serve([call("note", "n", request_heartbeat=True)], tools)
    ref = server.session(instructions="Old.", toolgroups=("shop",))
    server.store.after(lambda made: saves_step(made) and len(server.inference.requests) == 1, server.store.die)
    turn = start(server, ref, policy=LETTA, keeps_config=True, origin="letta")
    change_agent(server, ref)
    other = server.another([call("note", "n2"), "never"], tools)
    server.clock.advance(31)
    other.reconcile_turn(turn)
    other.settle()
    state = other.state(turn)
    assert (state.status, state.policy, state.origin) == (TurnStatus.COMPLETED, LETTA, "letta")
    assert contents(other.inference.requests[0].messages)[0] == "Old."
    assert state.inference_count == 2
    other.assert_whole(ref)


def test_secrets_of_a_snapshot_are_private_and_complete_after_a_read(serve: Any) -> None:
    server = serve([VIEWING])
    ref = server.session(client_tools=(client_tool(),))
    sampling = SamplingParams(strategy=TopP(temperature=0.5))
    own = config(tools=(SEARCH,), sampling_params=sampling, toolgroups=())
    new = NewTurn(messages=(UserMessage(content="x"),), config=own, documents=(TurnDocument(content="file"),))
    order = "0190a0a0-0000-7000-8000-000000000000"
    from turnstone.domain.turns.turns import Turn, silent_output
    from turnstone.store.sessions.turn_records import put_turn, turn_state_of

    turn = Turn(
        turn_id=order,
        session_id=ref.session_id,
        input_messages=(SystemMessage(content="s"), *new.messages),
        output_message=silent_output(),
        started_at=server.clock.now(),
    )
    state = new.opened(turn, own)
    server.records.write([put_turn(ref, state)])
    record = server.records.get(turn_key(ref, order))
    read: TurnState = turn_state_of(record)
    assert (read.config, read.documents, read.turn.input_messages) == (own, new.documents, turn.input_messages)
    assert read.config is not None
    assert SECRET in str([tool.api_key.get_secret_value() for tool in read.config.tools])  # type: ignore[union-attr]
    assert SECRET.encode() not in record.body.partition(b"\n")[2]


def test_a_chain_of_turns_that_end_at_client_calls_is_one_conversation_for_the_model(serve: Any) -> None:
    server = serve([VIEWING, call("look", "c2"), "done", "new"])
    ref = server.session(client_tools=(client_tool(),))
    first = start(server, ref, policy=RESPONSES)
    assert server.state(first).status is TurnStatus.COMPLETED
    assert server.state(first).turn.output_message.tool_calls == (VIEWING,)
    with pytest.raises(TurnNotAwaiting, match="next turn"):
        server.resume(first, answer("c1"))
    start(server, ref, (ToolResponseMessage(call_id="c1", content="one"),), policy=RESPONSES)
    start(server, ref, "changed my mind", policy=RESPONSES)
    server.whole_turn(ref, "agents")
    last = server.inference.requests[-1].messages
    assert contents(last) == [
        "hello", "", "one", "", "Not executed: no answer to this call was given.", "changed my mind", "done", "agents",
    ]  # fmt: skip
    assert [entry.continues for segment in server.segments(ref) for entry in segment.entries] == [
        False, True, False, False,
    ]  # fmt: skip
    server.assert_whole(ref)


def test_a_failing_prompt_source_fails_the_turn(serve: Any) -> None:
    class Failing:
        def system(self, state: TurnState) -> tuple[Message, ...]:
            raise InvalidRequest("a block is missing")

        def newest(self, state: TurnState) -> tuple[Message, ...]:
            return self.system(state)

    server = serve(["never", "fine"])
    ref = server.session(instructions="Old.")
    deps = server.core.turns._deps
    server.core.turns._runner._deps = deps._replace(prompt_of=lambda ref, config: Failing())
    turn = start(server, ref)
    assert server.state(turn).status is TurnStatus.FAILED
    assert "a block is missing" in str(server.state(turn).failure)
    server.core.turns._runner._deps = deps
    assert outline(server.whole_turn(ref)).endswith("complete")
