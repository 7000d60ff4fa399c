"""Large turns, steps, events and files, which are streamed while they are read, have the content of small ones.

Covers: store/sessions/long_texts, store/sessions/wire_turns, store/sessions/turn_records
"""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.fakes.models.openai_answers import Answer, call_answer, text_answer
from tests.fakes.models.openai_server import ModelServer
from tests.support.cases import rest_at_night
from tests.support.server.asgi_client import Answered, Raw, Served, scope_of, served
from turnstone.domain.access.caller import LOCAL_CALLER
from turnstone.domain.refs import SessionRef
from turnstone.ports.records import Put
from turnstone.store.layout.frames import frame
from turnstone.store.layout.keys import attachment_key
from turnstone.store.sessions import long_texts

NOISE = b64encode(Random(1).randbytes(1_500_000)).decode()  # too large for a record
QUESTION = NOISE + 'a "question"\\ of \u2603 lines\n' * 20_000
ANSWER = 'an \u00fcber-long \\answer\\ with \U0001f600 and "quotes" in it\t' * 20_000
TOOL = {"name": "look", "description": "Look.", "parameters": []}


@dataclass
class World:
    serving: Served
    session: str
    turn: dict[str, Any]

    @property
    def path(self) -> str:
        return f"{self.session}/turn/{self.turn['turn_id']}"

    def get(self, path: str) -> Answered:
        return self.serving.client.get(path)

    def ref(self) -> SessionRef:
        *_, agent_id, _, session_id = self.session.split("/")
        return SessionRef(tenant=LOCAL_CALLER.tenant, agent_id=agent_id, session_id=session_id)


@contextmanager
def world(folder: Path, more: Sequence[Answer] = ()) -> Iterator[World]:
    """Serve an ended turn of four steps, with a long question, a long answer of a tool and a long answer."""
    script = [call_answer(("look", "{}")), text_answer(ANSWER), *more]
    with ModelServer(script) as model, served(folder, model_url=model.url) as serving:
        config = {"model": "m", "instructions": "Be brief.", "client_tools": [TOOL]}
        agent_id = serving.client.post("/v1/agents", {"agent_config": config}).json()["agent_id"]
        path = f"/v1/agents/{agent_id}/session"
        session = f"{path}/{serving.client.post(path, {'session_name': 's'}).json()['session_id']}"
        paused = serving.client.post(f"{session}/turn", {"messages": [{"role": "user", "content": QUESTION}]}).json()
        (call,) = paused["output_message"]["tool_calls"]
        answered = [{"call_id": call["call_id"], "tool_name": "look", "content": QUESTION + ANSWER}]
        resume = f"{session}/turn/{paused['turn_id']}/resume"
        turn = serving.client.post(resume, {"tool_responses": answered}).json()
        assert turn["output_message"]["content"] == ANSWER
        serving._settle()
        yield World(serving, session, turn)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("large")) as there:
        yield there


@contextmanager
def held_whole() -> Iterator[None]:
    """Count every text as short, so that all are read whole."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_texts, "LONG_BYTES", 1 << 40)
        yield


def test_a_large_turn_equals_its_streamed_events(large: World) -> None:
    answer = large.get(large.path)
    assert answer.status == 200
    assert answer.json() == large.turn
    assert answer.headers["x-turn-status"] == "completed"
    assert int(answer.headers["x-turn-tokens"]) > 0
    assert answer.headers["content-type"] == "application/json"
    assert "content-length" not in answer.headers, "it was held whole"


@pytest.mark.parametrize("after", [0, 1, 3, 5, 7, 9])
def test_the_events_of_a_large_turn_equal_those_made_of_the_whole_turn(large: World, after: int) -> None:
    answer = large.get(f"{large.path}/events?after={after}")
    with held_whole():
        expected = large.get(f"{large.path}/events?after={after}")
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert (answer.status, answer.body) == (200, expected.body)


def test_steps_of_a_large_turn_are_those_of_the_turn(large: World) -> None:
    steps = large.turn["steps"]
    assert [step["step_type"] for step in steps] == ["inference", "tool_execution", "inference"]
    for step in steps:
        assert large.get(f"{large.path}/step/{step['step_id']}").json() == {"step": step}
    assert large.get(f"{large.path}/step/none").status == 404


def test_clients_of_2024_read_the_same(large: World) -> None:
    ref = large.ref()
    named = {"agent_id": ref.agent_id, "session_id": ref.session_id, "turn_id": large.turn["turn_id"]}
    query = "&".join(f"{name}={value}" for name, value in named.items())
    step = large.turn["steps"][-1]
    turns = [large.get(f"/agents/turn/get?{query}"), large.serving.client.post("/agents/turn/get", named)]
    named["step_id"] = step["step_id"]
    query += f"&step_id={step['step_id']}"
    steps = [large.get(f"/agents/step/get?{query}"), large.serving.client.post("/agents/step/get", named)]
    assert [turn.json() for turn in turns] == [large.turn] * 2
    assert [each.json() for each in steps] == [{"step": step}] * 2


@pytest.mark.parametrize("size", [10, 16 * 1024 + 7, 3_000_000])
def test_a_file_of_any_size_is_read_as_it_was_made(large: World, size: int) -> None:
    made = bytes(range(256)) * (size // 256 + 1)
    body = frame({"name": "a.bin", "mime_type": "application/octet-stream"}, made[:size])
    large.serving.server.core.foundation.ports.store.write(
        [Put(attachment_key(large.ref(), f"f{size}"), body, is_apart=True)]
    )
    answer = large.get(f"{large.session}/attachments/f{size}")
    assert (answer.status, answer.body) == (200, made[:size])
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["cache-control"] == "private, max-age=0"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''a.bin"


CHATS = "/v1/openai/v1/chat/completions"
HELD_BYTES = 1_000_000
LONG = NOISE + ' is "a question"\\ of \u2603 \U0001f600\n'


def stored_chat(there: World, text: str) -> tuple[str, bytes]:
    """Return the path of a stored chat completion with the text in its question, and its JSON."""
    parts = [{"type": "text", "text": text}, {"type": "text", "text": "short"}]
    messages = [{"role": "user", "content": parts}, {"role": "user", "content": text}]
    made = there.serving.client.post(CHATS, {"model": "m", "store": True, "messages": messages}).json()
    return f"{CHATS}/{made['id']}", json.dumps(messages).encode()


@pytest.mark.parametrize("text", ["short", LONG])
def test_a_stored_chat_completion_of_any_size_is_read_as_it_was_requested(tmp_path: Path, text: str) -> None:
    with world(tmp_path, [text_answer("ok")]) as there:
        path, sent = stored_chat(there, text)
        read, messages = there.get(path), there.get(f"{path}/messages?order=desc")
        changed = there.serving.client.post(path, {"metadata": {"a": "b"}})
        assert there.get(f"{path}/messages?after={messages.json()['first_id']}").json()["data"] == []
    assert read.json()["input_messages"] == json.loads(sent)
    assert changed.json() == read.json() | {"metadata": {"a": "b"}}
    plain, parted = messages.json()["data"]
    assert (plain["content"], parted["content_parts"]) == (text, json.loads(sent)[0]["content"])
    for answer in (read, messages, changed):
        assert answer.headers["content-type"] == "application/json"
        assert ("content-length" in answer.headers) == (text == "short")


@pytest.mark.parametrize("of", rest_at_night(["", "/messages", "change"], ["/messages"]))
def test_a_reader_that_stands_still_holds_little_of_a_stored_chat_completion(tmp_path: Path, of: str) -> None:
    with world(tmp_path, [text_answer("ok")]) as there:
        path, _ = stored_chat(there, LONG)
        there.get(path + of.removeprefix("change"))
        body = b'{"metadata": {"a": "b"}}' if of == "change" else b""
        raw = Raw("POST", path.encode(), body=(body,)) if body else Raw("GET", (path + of).encode())
        bodies: list[bytes] = []

        async def receive() -> Mapping[str, Any]:
            if bodies:
                await asyncio.Event().wait()
            return {"type": "http.request", "body": body, "more_body": False}

        async def stand_still() -> int:
            stands = asyncio.Event()

            async def send(message: Mapping[str, Any]) -> None:
                if "body" in message:
                    bodies.append(message["body"])
                    stands.set()
                    await asyncio.Event().wait()

            gc.collect()
            tracemalloc.start()
            try:
                reading = asyncio.create_task(there.serving.client.app(scope_of(raw), receive, send))
                await asyncio.wait_for(stands.wait(), 20)
                gc.collect()
                held, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading
            return held

        assert there.serving.client._loop.run_until_complete(stand_still()) < HELD_BYTES
        assert bodies


@pytest.mark.parametrize("of", ["turn", "events"])
def test_a_turn_that_is_removed_while_it_is_read_aborts_the_answer(tmp_path: Path, of: str) -> None:
    with world(tmp_path) as there:
        path = there.path if of == "turn" else f"{there.path}/events"
        sent: list[Mapping[str, Any]] = []

        async def receive() -> Mapping[str, Any]:
            if sent:
                await asyncio.Event().wait()
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Mapping[str, Any]) -> None:
            sent.append(message)
            for file in (there.serving.data_dir / "blobs").glob("*/*"):
                file.unlink()

        reading = there.serving.client.app(scope_of(Raw("GET", path.encode())), receive, send)
        with pytest.raises(Exception, match="went away while it was read"):
            there.serving.client._loop.run_until_complete(reading)
        assert sent[0]["status"] == 200
        assert sent[-1].get("more_body"), "a part of it passes for the whole"


def test_an_answer_that_is_gone_is_a_status(tmp_path: Path) -> None:
    with world(tmp_path) as there:
        for file in (there.serving.data_dir / "blobs").glob("*/*"):
            file.unlink()
        for path in (there.path, f"{there.path}/events", f"{there.path}/step/{there.turn['steps'][0]['step_id']}"):
            assert there.get(path).status == 410
        assert json.loads(there.get(there.session).body)["lost_turns"] == [there.turn["turn_id"]]
