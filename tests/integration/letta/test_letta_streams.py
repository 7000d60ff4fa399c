"""Letta's streams of tokens over both stores: live, repeated, and taken over, with the same bytes.

Covers: dialects/letta/turns/token_stream, services/letta/messages, services/streams/replay
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from tests.fakes.models.scripted import ScriptedReply
from tests.support.engine.either_store import Make
from tests.support.engine.harness import Server, attempt
from turnstone.dialects.letta.messages import AnswerTool, response_of
from turnstone.dialects.letta.requests import CreateLettaAgent
from turnstone.dialects.letta.turns.stream import LettaStream
from turnstone.dialects.letta.turns.token_stream import LettaTokenStream
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.models.requests import ArgumentsChunk, CallBegun
from turnstone.domain.tools.tools import call_from_json
from turnstone.domain.turns.events import Numbered
from turnstone.domain.turns.turns import TurnState
from turnstone.services.streams.broadcast import TurnBroadcast
from turnstone.services.streams.replay import numbered

SENT = {"inner_thoughts": "Hm 😀.", "message": 'Say "hello"\n\\o/ ' + "é" * 3_000}
NOTED = {"inner_thoughts": "", "label": "human", "content": "tea \u2028", "request_heartbeat": True}


def written(name: str, arguments: dict[str, Any], seed: int) -> ScriptedReply:
    """Return an answer with a call whose arguments come in parts of at most that many characters."""
    text, random = json.dumps(arguments), Random(seed)
    chunks: list[Any] = [CallBegun(0, f"c-{name}", name)]
    rest = text
    while rest:
        length = random.randrange(1, seed + 1)
        chunks.append(ArgumentsChunk(0, rest[:length]))
        rest = rest[length:]
    return ScriptedReply(chunks=tuple(chunks), calls=(call_from_json(f"c-{name}", name, text),))


def begun(server: Server, *, keeps_details: bool = True) -> TurnBroadcast:
    body = CreateLettaAgent.model_validate(
        {"llm_config": {"model": "scripted"}, "memory_blocks": [{"label": "human", "value": ""}]}
    )
    agent_id = server.core.letta_agents.create(LOCAL_CALLER, body.to_new("Sam"), attempt()).agent_id
    messages = [UserMessage(content="hi")]
    return server.core.letta_messages.send(LOCAL_CALLER, agent_id, messages, attempt(), keeps_details=keeps_details)


def encoded(state: TurnState, events: tuple[Numbered, ...], encoder: type[LettaStream] = LettaTokenStream) -> bytes:
    stream = encoder(state.turn_id, 1, AnswerTool())
    return b"".join(map(stream.encode, events))


def texts_of(sent: bytes, field: str) -> list[str]:
    lines = (json.loads(line.removeprefix("data: ")) for line in sent.decode().split("\n\n")[:-2])
    return [line[field] for line in lines if field in line]


@pytest.mark.parametrize("seed", [1, 2, 9])
def test_a_repeated_stream_has_the_fragments_of_the_first(make: Make, seed: int) -> None:
    server = make(written("core_memory_append", NOTED, seed), written("send_message", SENT, seed))
    broadcast = begun(server)
    server.drain(broadcast)
    live = broadcast.subscribe(lambda: None, reads_details=True).take().numbered
    state = server.state(broadcast.ref)
    sent = encoded(state, live)
    assert encoded(state, numbered(state, is_detailed=True)) == sent
    fragments = texts_of(sent, "assistant_message")
    assert "".join(fragments) == SENT["message"]
    assert len(fragments) > 3_000 / seed / 2
    arguments = "".join(call.get("arguments", "") for call in texts_of(sent, "tool_call"))  # type: ignore[attr-defined]
    whole = response_of(state, AnswerTool())
    assert arguments == whole.messages[0].model_dump()["tool_call"]["arguments"]


def test_a_turn_without_parts_is_streamed_whole(make: Make) -> None:
    server = make(written("send_message", SENT, 5))
    broadcast = begun(server, keeps_details=False)
    server.drain(broadcast)
    live = broadcast.subscribe(lambda: None, reads_details=True).take().numbered
    state = server.state(broadcast.ref)
    assert encoded(state, live) == encoded(state, live, LettaStream) == encoded(state, numbered(state))
    assert texts_of(encoded(state, live), "assistant_message") == [SENT["message"]]
