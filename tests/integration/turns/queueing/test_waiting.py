"""Requests that wait for a slot: which requests wait, their order, and the ones that leave.

Covers: services/threads/slots, services/threads/executor
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from tests.fakes.models.openai_answers import Pause, call_answer, text_answer
from tests.fakes.models.openai_server import ModelServer, Script
from tests.support.server.asgi_client import Answered, Raw, Served, answer_of, bearer, key_for, scope_of, served
from turnstone.domain.access.caller import Caller

PATIENCE_S = 20.0
LONG_S = 30.0  # to wait: no request of these tests does
SOON_S = LONG_S / 3  # far less than a wait for a slot
CONFIG = {"model": "m", "instructions": "Be brief."}
TOOL = {"name": "look", "description": "Look.", "parameters": []}
HELLO = {"messages": [{"role": "user", "content": "hello"}]}
CHAT = {"model": "m", **HELLO}
DIRECT = {
    "/v1/openai/v1/chat/completions": CHAT,
    "/v1/inference/chat-completion": {"model_id": "m", **HELLO},
    "/v1/openai/v1/embeddings": {"model": "m", "input": "hello"},
    "/v1/inference/embeddings": {"model_id": "m", "contents": ["hello"]},
    "/v1/tool-runtime/invoke": {"tool_name": "current_time", "kwargs": {}},
    "/v1/safety/run-shield": {"shield_id": "words", "params": {}, **HELLO},
}


class Pending:
    """A request under way."""

    def __init__(self, app: Any, request: Raw) -> None:
        self.sent: list[Mapping[str, Any]] = []
        self._incoming = [{"type": "http.request", "body": request.body[0], "more_body": False}]
        self._left = asyncio.Event()
        self.task = asyncio.ensure_future(app(scope_of(request), self._receive, self._send))

    def leave(self) -> None:
        self._left.set()

    async def answer(self) -> Answered:
        await asyncio.wait_for(self.task, PATIENCE_S)
        return answer_of(self.sent)

    async def _receive(self) -> Mapping[str, Any]:
        if self._incoming:
            return self._incoming.pop()
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Mapping[str, Any]) -> None:
        self.sent.append(message)


class World:
    """A server whose slots are all taken within a `with` block."""

    def __init__(self, serving: Served, model: ModelServer) -> None:
        self.serving = serving
        self.model = model
        self.executor = serving.server.core.executor
        self._taken = ExitStack()

    def __enter__(self) -> Self:
        while self.executor.taken < self.serving.server.core.foundation.settings.max_running_turns:
            self._taken.enter_context(self.executor.permit("somebody"))
        return self

    def __exit__(self, *_: object) -> None:
        self._taken.close()

    def session(self, **config: Any) -> str:
        """Return the path of a new session."""
        created = self.serving.client.post("/v1/agents", {"agent_config": {**CONFIG, **config}})
        path = f"/v1/agents/{created.json()['agent_id']}/session"
        opened = self.serving.client.post(path, {"session_name": "s"})
        return f"{path}/{opened.json()['session_id']}"

    def send(self, path: str, body: object, *headers: tuple[bytes, bytes]) -> Pending:
        """Send a request; for coroutines only."""
        return Pending(self.serving.client.app, Raw("POST", path.encode(), (json.dumps(body).encode(),), headers))

    def run(self, test: Callable[[], Awaitable[None]]) -> None:
        self.serving.client._loop.run_until_complete(asyncio.wait_for(test(), PATIENCE_S))

    async def waiting(self, number: int) -> None:
        """Return once so many requests wait."""
        await until(lambda: self.executor.queued == number, f"{self.executor.queued} requests wait, not {number}")


@contextmanager
def world(folder: Path, script: Script = lambda _: text_answer("ok"), **settings: Any) -> Iterator[World]:
    settings = {"max_running_turns": 1, "place_wait_seconds": LONG_S, **settings}
    with ModelServer(script) as model, served(folder, model_url=model.url, **settings) as serving:
        yield World(serving, model)
        serving._settle()
        assert (serving.server.core.executor.taken, serving.server.core.executor.queued) == (0, 0)


async def until(holds: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, otherwise
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_turn_waits_for_a_slot_before_its_status_is_sent(tmp_path: Path, stream: bool) -> None:
    with world(tmp_path) as there:
        path = f"{there.session()}/turn"

        async def test() -> None:
            with there:
                request = there.send(path, {**HELLO, "stream": stream})
                await there.waiting(1)
                assert request.sent == []
            answer = await request.answer()
            assert answer.status == 200
            assert b"ok" in answer.body

        there.run(test)


@pytest.mark.parametrize("path", DIRECT)
def test_direct_inferences_wait_likewise(tmp_path: Path, path: str) -> None:
    with world(tmp_path) as there:
        shield = {"shield_id": "words", "provider_id": "pattern", "params": {"words": ["never"]}}
        assert there.serving.client.post("/v1/shields", shield).status == 200

        async def test() -> None:
            with there:
                request = there.send(path, DIRECT[path])
                await there.waiting(1)
            assert (await request.answer()).status == 200

        there.run(test)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_request_that_finds_no_slot_gets_a_status_and_a_retry_after(tmp_path: Path, stream: bool) -> None:
    with world(tmp_path, place_wait_seconds=0.2) as there:
        path = f"{there.session()}/turn"

        async def test() -> None:
            with there:
                refused = await there.send(path, {**HELLO, "stream": stream}).answer()
                assert (refused.status, refused.headers["retry-after"]) == (503, "1")
                assert "no place became free within 0.2 s (TURNSTONE_PLACE_WAIT_SECONDS)" in refused.refusal()
                assert there.executor.queued == 0

        there.run(test)
        assert there.model.requests == []


def test_a_wait_of_0_seconds_is_none(tmp_path: Path) -> None:
    with world(tmp_path, place_wait_seconds=0) as there:
        path = f"{there.session()}/turn"

        async def test() -> None:
            with there:
                refused = await there.send(path, HELLO).answer()
                assert (refused.status, refused.headers["retry-after"]) == (503, "1")
                all_taken = "1 turn is running, which is all this server takes (the limit TURNSTONE_MAX_RUNNING_TURNS)"
                assert refused.refusal() == f"{all_taken}; try again shortly"

        there.run(test)


def test_a_client_that_leaves_while_waiting_leaves_the_queue_at_once_and_takes_no_slot(tmp_path: Path) -> None:
    with world(tmp_path) as there:
        paths = [f"{there.session()}/turn" for _ in range(3)]

        async def test() -> None:
            with there:
                requests = []
                for number, path in enumerate(paths, 1):
                    requests.append(there.send(path, HELLO))
                    await there.waiting(number)
                began = time.monotonic()
                requests[0].leave()
                requests[1].leave()
                await there.waiting(1)
                assert time.monotonic() - began < LONG_S / 3
            assert (await requests[2].answer()).status == 200
            for left in requests[:2]:
                await left.task
                assert left.sent == []

        there.run(test)
        assert len(there.model.requests) == 1


def test_waiting_requests_are_refused_at_once_when_the_server_begins_to_stop(tmp_path: Path) -> None:
    with world(tmp_path) as there:
        path = f"{there.session()}/turn"

        async def test() -> None:
            with there:
                request = there.send(path, HELLO)
                await there.waiting(1)
                there.serving.server.begin_to_stop()
                for refused in (await request.answer(), await there.send(path, HELLO).answer()):
                    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
                    assert refused.refusal() == "the server is shutting down; send the request again"

        there.run(test)


def test_a_request_that_the_server_cancels_takes_no_slot(tmp_path: Path) -> None:
    with world(tmp_path) as there:
        path = f"{there.session()}/turn"

        async def test() -> None:
            with there:
                request = there.send(path, HELLO)
                await there.waiting(1)
                request.task.cancel()
                assert "the server is shutting down" in (await request.answer()).refusal()
                await there.waiting(0)

        there.run(test)


def test_a_request_that_needs_no_slot_does_not_wait(tmp_path: Path) -> None:
    """A repeated request joins its turn, and an invalid one is refused, while every slot is taken."""
    key = (b"idempotency-key", b"once")
    with world(tmp_path, [(Pause(3.0), *text_answer("ok"))]) as there:
        session = there.session()

        async def test() -> None:
            first = there.send(f"{session}/turn", HELLO, key)
            await until(lambda: len(there.model.requests) == 1, "the model is not asked")
            began = time.monotonic()
            assert (await there.send(f"{session}/turn", {"messages": 1}).answer()).status == 400
            assert (await there.send(f"{session}x/turn", HELLO).answer()).status == 404
            assert (await there.send(f"{session}/turn", HELLO).answer()).status == 409
            assert time.monotonic() - began < 2.7
            again = there.send(f"{session}/turn", HELLO, key)
            answers = [await first.answer(), await again.answer()]
            assert [answer.status for answer in answers] == [200, 200]
            assert answers[0].json()["turn_id"] == answers[1].json()["turn_id"]

        there.run(test)


def test_a_request_and_its_repetition_both_wait_and_are_one_turn(tmp_path: Path) -> None:
    key = (b"idempotency-key", b"once")
    with world(tmp_path) as there:
        path = f"{there.session()}/turn"

        async def test() -> None:
            with there:
                requests = [there.send(path, HELLO, key), there.send(path, HELLO, key)]
                await there.waiting(2)
            answers = [await each.answer() for each in requests]
            assert [answer.status for answer in answers] == [200, 200]
            assert len({answer.json()["turn_id"] for answer in answers}) == 1

        there.run(test)
        assert len(there.model.requests) == 1


def test_a_resume_goes_before_new_turns_of_its_tenant(tmp_path: Path) -> None:
    script = [call_answer(("look", "{}")), text_answer("resumed"), text_answer("new")]
    with world(tmp_path, script) as there:
        paused, other = there.session(client_tools=[TOOL]), there.session()
        turn = there.serving.client.post(f"{paused}/turn", HELLO).json()
        (call,) = turn["output_message"]["tool_calls"]
        responses = {"tool_responses": [{"call_id": call["call_id"], "tool_name": "look", "content": "seen"}]}

        async def test() -> None:
            with there:
                new = there.send(f"{other}/turn", HELLO)
                await there.waiting(1)
                resumed = there.send(f"{paused}/turn/{turn['turn_id']}/resume", responses)
                await there.waiting(2)
            assert (await resumed.answer()).json()["output_message"]["content"] == "resumed"
            assert (await new.answer()).json()["output_message"]["content"] == "new"

        there.run(test)


def test_the_session_is_read_again_after_the_wait(tmp_path: Path) -> None:
    with world(tmp_path) as there:
        session = there.session()

        async def test() -> None:
            with there:
                request = there.send(f"{session}/turn", HELLO)
                await there.waiting(1)
                gone = Pending(there.serving.client.app, Raw("DELETE", session.encode(), (b"",)))
                assert (await gone.answer()).status == 204
            assert (await request.answer()).status == 404

        there.run(test)
        assert there.model.requests == []


def test_one_tenant_fills_neither_the_queue_nor_the_slots_of_others(tmp_path: Path) -> None:
    limits = {"max_running_turns": 4, "max_tenant_turns": 3, "max_waiting_requests": 8}
    with world(tmp_path, lambda _: (Pause(0.3), *text_answer("ok")), auth="api_keys", **limits) as there:
        greedy, modest = (
            bearer(key_for(there.serving, Caller(principal="ann", tenant=name))) for name in ("greedy", "modest")
        )
        path = "/v1/openai/v1/chat/completions"

        async def test() -> None:
            flood = [there.send(path, CHAT, greedy) for _ in range(20)]
            await until(lambda: sum(one.task.done() for one in flood) == 15, "the queue takes more, or less")
            assert (there.executor.taken, there.executor.queued) == (3, 2)
            began = time.monotonic()
            assert (await there.send(path, CHAT, modest).answer()).status == 200
            assert time.monotonic() - began < SOON_S
            answers = [await one.answer() for one in flood]
            assert sorted(answer.status for answer in answers) == [200] * 5 + [503] * 15
            refusals = {answer.refusal() for answer in answers if answer.status == 503}
            assert all("and 2 requests of this tenant wait" in refusal for refusal in refusals)
            for limit in ("TURNSTONE_MAX_TENANT_TURNS", "TURNSTONE_MAX_TENANT_WAITING_REQUESTS"):
                assert all(f"(the limit {limit})" in refusal for refusal in refusals)

        there.run(test)


def test_hundreds_that_wait_hold_no_thread(tmp_path: Path) -> None:
    before = threading.active_count()  # other tests of this process may have left some
    with world(tmp_path) as there:
        paths = [f"{there.session()}/turn" for _ in range(200)]

        async def test() -> None:
            with there:
                requests = [there.send(path, HELLO) for path in paths]
                await there.waiting(len(paths))
                threads = threading.active_count()
                began = time.monotonic()
                reads = [Pending(there.serving.client.app, Raw("GET", b"/v1/agents", (b"",))) for _ in range(20)]
                assert [(await read.answer()).status for read in reads] == [200] * 20
                assert time.monotonic() - began < SOON_S
                assert threads - before < 40
                for each in requests[:150]:
                    each.leave()
                await there.waiting(50)
            assert [(await each.answer()).status for each in requests[150:]] == [200] * 50

        there.run(test)
        assert len(there.model.requests) == 50


@pytest.mark.parametrize("wait_s", [0, 0.2])
def test_a_turn_equal_to_the_one_before_that_finds_no_slot_may_be_sent_again_later_but_not_automatically(
    tmp_path: Path, wait_s: float
) -> None:
    with world(tmp_path, place_wait_seconds=wait_s) as there:
        path = f"{there.session()}/turn"
        assert there.serving.client.post(path, HELLO).status == 200

        async def test() -> None:
            with there:
                refused = await there.send(path, HELLO).answer()
                assert (refused.status, refused.headers["x-should-retry"]) == (503, "false")
                assert refused.headers["retry-after"] == "1"

        there.run(test)
