"""Direct inference: the requests of models, failures as a status or an event, and cancellation by the client.

Covers: services/models/inferring, services/models/answer_stream, adapters/models/openai/openai_logprobs
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.openai_answers import (
    BreakOff,
    Pause,
    call_answer,
    ending,
    error_answer,
    text_answer,
    text_chunk,
)
from tests.fakes.models.openai_server import ModelServer, Script
from tests.support.models.answer_readers import Leaver, events_of
from tests.support.server.asgi_client import Raw, Served, scope_of, served
from turnstone.domain.errors import Overloaded

CHAT, OPENAI_CHAT = "/v1/inference/chat-completion", "/v1/openai/v1/chat/completions"
EMBED, OPENAI_EMBED = "/v1/inference/embeddings", "/v1/openai/v1/embeddings"
BOTH = pytest.mark.parametrize("path", [CHAT, OPENAI_CHAT])
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
HELLO = {"role": "user", "content": "a question that nobody else shall read"}
PATIENCE_S = 5.0
KEYS = (b"x-llamastack-provider-data", b'{"openai_api_key": "sk-own"}')


def request_to(path: str, **fields: Any) -> dict[str, Any]:
    name = "model_id" if path in (CHAT, EMBED) else "model"
    return {name: "m", "messages": [HELLO], **fields}


@contextmanager
def world(
    tmp_path: Path, script: Script = lambda _: text_answer("o", "k"), **settings: Any
) -> Iterator[tuple[Served, ModelServer]]:
    with ModelServer(script) as model, served(tmp_path, model_url=model.url, **settings) as serving:
        yield serving, model


@BOTH
@STREAMED
def test_a_model_error_before_the_first_word_is_a_status(tmp_path: Path, path: str, stream: bool) -> None:
    with world(tmp_path, [error_answer(400, "too hard")]) as (serving, _):
        answer = serving.client.post(path, request_to(path, stream=stream))
    assert answer.status == 400
    assert "too hard" in answer.refusal()
    assert HELLO["content"] not in answer.refusal()
    assert ("error" in answer.json()) == (path == OPENAI_CHAT)


@BOTH
def test_a_model_that_fails_midway_is_an_event_in_a_stream_and_a_status_otherwise(tmp_path: Path, path: str) -> None:
    broken = (text_chunk("Once"), Pause(0.05), BreakOff())
    with world(tmp_path, [broken, broken]) as (serving, _):
        streamed = serving.client.post(path, request_to(path, stream=True))
        whole = serving.client.post(path, request_to(path))
    assert (streamed.status, whole.status) == (200, 502)
    *chunks, last = events_of(streamed)
    assert "Once" in json.dumps(chunks)
    assert "broke off" in last["error"]["message"]
    assert b"[DONE]" not in streamed.body


def test_a_request_reaches_the_model_unchanged(tmp_path: Path) -> None:
    tools = [
        {"tool_name": "add", "description": "Add.", "parameters": {"a": {"param_type": "int", "description": "One"}}}
    ]
    messages = [{"role": "system", "content": "Be brief."}, HELLO]
    sampling = {"strategy": {"type": "top_p", "temperature": 0.5, "top_p": 0.9}, "max_tokens": 7, "stop": ["END"]}
    fields = {"messages": messages, "tools": tools, "tool_choice": "required", "sampling_params": sampling}
    with world(tmp_path, [call_answer(("add", '{"a": 1}'))]) as (serving, model):
        answer = serving.client.post(CHAT, request_to(CHAT, **fields)).json()
    (sent,) = model.requests
    assert sent["messages"] == messages
    assert (sent["temperature"], sent["top_p"], sent["max_tokens"], sent["stop"]) == (0.5, 0.9, 7, ["END"])
    assert sent["tool_choice"] == "required"
    assert sent["tools"][0]["function"] == {
        "name": "add",
        "description": "Add.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer", "description": "One"}},
            "required": ["a"],
        },
    }
    message = answer["completion_message"]
    assert [call["arguments"] for call in message["tool_calls"]] == [{"a": 1}]
    assert message["stop_reason"] == "end_of_message"


def test_fields_of_openai_servers_alone_are_passed_on(tmp_path: Path) -> None:
    with world(tmp_path) as (serving, model):
        assert serving.client.post(OPENAI_CHAT, request_to(OPENAI_CHAT, seed=7, user="ann", min_p=0.1)).status == 200
        body = {"model": "m", "input": ["one"], "user": "ann", "dimensions": 5, "input_type": "query"}
        assert serving.client.post(OPENAI_EMBED, body).status == 200
    chat, embedding = model.requests
    assert (chat["seed"], chat["user"], chat["min_p"], "temperature" in chat) == (7, "ann", 0.1, False)
    assert embedding == {**body, "encoding_format": "float"}


SCORE = {"token": "o", "logprob": -0.25, "bytes": [111], "top_logprobs": [{"token": "O", "logprob": -2, "bytes": None}]}
ODD = [
    SCORE | {"logprob": -(10**400)},
    SCORE | {"logprob": float("-inf")},
    SCORE | {"token": 7},
    "x",
    SCORE | {"bytes": [300], "top_logprobs": "x"},
]
UNLIKELY = SCORE | {"logprob": -9999.0}


def rated(text: str, *entries: Any) -> dict[str, Any]:
    made = text_chunk(text)
    made["choices"][0]["logprobs"] = {"content": list(entries)}
    return made


@STREAMED
def test_logprobs_are_returned_on_request(tmp_path: Path, stream: bool) -> None:
    answer = (rated("", SCORE), rated("ok", SCORE), rated("!", *ODD), *ending("stop"))
    with world(tmp_path, lambda _: answer) as (serving, model):
        rated_answer, plain_answer = (
            serving.client.post(OPENAI_CHAT, request_to(OPENAI_CHAT, stream=stream, **fields))
            for fields in ({"logprobs": True, "top_logprobs": 1}, {})
        )
    choices = [
        choice
        for event in (events_of(rated_answer) if stream else [rated_answer.json()])
        for choice in event["choices"]
    ]
    entries = [entry for choice in choices if choice["logprobs"] for entry in choice["logprobs"]["content"]]
    assert entries == [SCORE, SCORE, UNLIKELY, UNLIKELY, SCORE | {"bytes": None, "top_logprobs": []}]
    if stream:
        assert [(c["delta"].get("content"), len(c["logprobs"]["content"])) for c in choices if c["logprobs"]] == [
            ("", 1),
            ("ok", 1),
            ("!", 3),
        ]
    assert b"-0.25" not in plain_answer.body
    assert [(sent.get("logprobs"), sent.get("top_logprobs")) for sent in model.requests] == [(True, 1), (None, None)]


def test_a_flood_of_logprobs_ends_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstone.adapters.models.openai.openai_logprobs.MOST_ENTRIES", 20)
    answer = (*(rated("o", SCORE) for _ in range(11)), *ending("stop"))
    with world(tmp_path, lambda _: answer) as (serving, _):
        refused = serving.client.post(OPENAI_CHAT, request_to(OPENAI_CHAT, logprobs=True, top_logprobs=1))
    assert (refused.status, "ask for fewer top_logprobs" in refused.refusal()) == (502, True)


def test_other_answers_than_the_first_are_no_part_of_it(tmp_path: Path) -> None:
    def chosen(index: int, text: str) -> dict[str, Any]:
        made = text_chunk(text)
        made["choices"][0]["index"] = index
        return made

    chunks = (chosen(1, "no"), chosen(0, "yes"), chosen(1, "no"), *ending("stop"))
    with world(tmp_path, lambda _: chunks) as (serving, _):
        answer = serving.client.post(OPENAI_CHAT, request_to(OPENAI_CHAT)).json()
    assert answer["choices"][0]["message"]["content"] == "yes"


@STREAMED
def test_a_fallback_of_another_kind_answers_without_the_fields_it_does_not_take(tmp_path: Path, stream: bool) -> None:
    tool = {"type": "function", "function": {"name": "add", "strict": True, "parameters": {"type": "object"}}}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"}}
    messages = [{"role": "user", "name": "ann", "content": [{"type": "text", "text": "hi"}, image]}]
    with ModelServer(lambda _: error_answer(500, "out of order")) as model:
        file = tmp_path / "turnstone.toml"
        file.write_text(FILE.format(url=model.url))
        with served(tmp_path, config=file) as serving:
            body = {"model": "two", "messages": messages, "tools": [tool], "top_k": 3, "user": "ann", "stream": stream}
            answer = serving.client.post(OPENAI_CHAT, body)
            refused = serving.client.post(OPENAI_CHAT, {**body, "logprobs": True})
    assert answer.status == 200
    assert b"offline" in answer.body
    (sent,) = model.requests
    assert (sent["messages"], sent["tools"], sent["top_k"]) == (
        messages,
        [tool | {"function": sent["tools"][0]["function"]}],
        3,
    )
    assert sent["tools"][0]["function"]["strict"] is True
    assert (refused.status, refused.refusal()) == (
        400,
        "logprobs: the provider of 'two' does not take it; leave it out",
    )


@BOTH
def test_nothing_is_stored(tmp_path: Path, path: str) -> None:
    with world(tmp_path) as (serving, _):
        before = serving.marks()
        assert serving.client.post(path, request_to(path)).status == 200
        assert serving.marks() == before


@pytest.mark.parametrize(("path", "body"), [
    (CHAT, request_to(CHAT)), (OPENAI_CHAT, request_to(OPENAI_CHAT)),
    (EMBED, {"model_id": "m", "contents": ["a"]}), (OPENAI_EMBED, {"model": "m", "input": "a"}),
])  # fmt: skip
def test_a_callers_own_key_is_passed_on(tmp_path: Path, path: str, body: Mapping[str, Any]) -> None:
    with world(tmp_path, model_api_key="sk-ours") as (serving, model):
        for headers in ((), (KEYS,), ((KEYS[0], b"no JSON"),)):
            answer = serving.client.send(Raw("POST", path.encode(), (json.dumps(body).encode(),), headers))
            assert answer.status == (400 if (KEYS[0], b"no JSON") in headers else 200)
    assert [sent["authorization"] for sent in model.headers] == ["Bearer sk-ours", "Bearer sk-own"]


def test_vectors_come_in_the_order_of_the_texts(tmp_path: Path) -> None:
    with world(tmp_path) as (serving, _):
        vectors = serving.client.post(
            EMBED, {"model_id": "m", "contents": ["a", {"type": "text", "text": "bbb"}]}
        ).json()
        openai = serving.client.post(OPENAI_EMBED, {"model": "m", "input": ["a", "bbb"]}).json()
    assert vectors == {"embeddings": [[1.0, 0.0, 0.0], [3.0, 1.0, 0.0]]}
    assert [entry["embedding"] for entry in openai["data"]] == vectors["embeddings"]
    assert openai["usage"] == {"prompt_tokens": 7, "total_tokens": 7}


@pytest.mark.parametrize(
    ("cut_at", "sent"),
    [
        ("start", ["ijklmnopqrst", "short", "\N{EURO SIGN}" * 4, "x" + "\u00e9" * 5]),
        ("end", ["abcdefghijkl", "short", "\N{EURO SIGN}" * 4, "x" + "\u00e9" * 5]),
        ("none", None),
        (None, None),
    ],
)
def test_a_text_too_long_for_a_model_of_registered_length_is_cut_at_the_requested_end(
    tmp_path: Path, cut_at: str | None, sent: list[str] | None
) -> None:
    contents = ["abcdefghijklmnopqrst", "short", "\N{EURO SIGN}" * 9, "x" + "\u00e9" * 5]
    with world(tmp_path) as (serving, model):
        limited = {"model_id": "known", "metadata": {"context_tokens": 4, "embedding_dimension": 3}}
        assert serving.client.post("/v1/models", {**limited, "model_type": "embedding"}).status == 200
        for model_id in ("known", "unknown"):
            body = {"model_id": model_id, "contents": contents, "text_truncation": cut_at}
            assert serving.client.post(EMBED, body).status == 200
    assert [body["input"] for body in model.requests] == [sent or contents, contents]


def test_text_that_a_servers_error_repeats_is_not_shown(tmp_path: Path) -> None:
    with world(tmp_path) as (serving, _):
        answer = serving.client.post(OPENAI_EMBED, {"model": "broken", "input": [HELLO["content"]]})
    assert answer.status == 400
    assert answer.refusal().endswith("can't read [redacted]")


FILE = """
registry = "closed"
[providers.here]
type = "openai"
url = "{url}"
[providers.off]
type = "offline"
[models.talks]
provider = "here"
model = "large"
[models.two]
provider = "here"
fallbacks = [{{provider = "off"}}]
[models.off]
provider = "off"
[models.embeds]
provider = "here"
embedding_dimension = 3
[models.wrong]
provider = "here"
embedding_dimension = 4
"""


@pytest.mark.parametrize(
    ("path", "body", "status", "reason"),
    [
        (OPENAI_CHAT, {"model": "talks", "messages": [HELLO]}, 200, ""),
        (OPENAI_CHAT, {"model": "unknown", "messages": [HELLO]}, 404, "this server has no model 'unknown'"),
        (CHAT, {"model_id": "unknown", "messages": [HELLO]}, 400, "this server has no model 'unknown'"),
        (OPENAI_CHAT, {"model": "embeds", "messages": [HELLO]}, 400, "makes embeddings only"),
        (OPENAI_CHAT, {"model": "two", "messages": [HELLO], "seed": 1}, 400, "seed: "),
        (OPENAI_CHAT, {"model": "two", "messages": [HELLO], "max_completion_tokens": 1}, 200, ""),
        (OPENAI_EMBED, {"model": "embeds", "input": "a"}, 200, ""),
        (OPENAI_EMBED, {"model": "embeds", "input": "a", "dimensions": 7}, 200, ""),
        (
            OPENAI_EMBED,
            {"model": "wrong", "input": "a"},
            502,
            "makes vectors of 3 dimensions, not the 4 it is registered with",
        ),
        (EMBED, {"model_id": "two", "contents": ["a"], "task_type": "search"}, 400, "task_type"),
        (EMBED, {"model_id": "off", "contents": ["a"], "output_dimension": 9}, 400, "output_dimension: model 'off'"),
    ],
)
def test_the_operators_models_are_used_within_their_capabilities(
    tmp_path: Path, path: str, body: Mapping[str, Any], status: int, reason: str
) -> None:
    with ModelServer() as model:
        file = tmp_path / "turnstone.toml"
        file.write_text(FILE.format(url=model.url))
        with served(tmp_path, config=file) as serving:
            answer = serving.client.post(path, body)
    assert answer.status == status, answer
    assert status == 200 or reason in answer.refusal()


@BOTH
def test_an_answer_too_many_is_refused(tmp_path: Path, path: str) -> None:
    with world(tmp_path, max_running_turns=1, place_wait_seconds=0) as (serving, _):
        with serving.server.core.executor.permit("acme"):
            refused = serving.client.post(path, request_to(path))
        assert (refused.status, refused.refusal()) == (503, str(Overloaded(1)))
        assert serving.client.post(path, request_to(path)).status == 200


def test_models_of_this_server_need_no_slot(tmp_path: Path) -> None:
    """A search of a bank does not wait for chats, and for searches whose models do not answer."""
    bank = {"vector_db_id": "birds", "embedding_model": "hashed-words"}
    chunks = [{"content": "Terns dive.", "metadata": {}}]
    with (
        world(tmp_path, max_running_turns=1, place_wait_seconds=0) as (serving, _),
        serving.server.core.executor.permit("acme"),
    ):
        post = serving.client.post
        assert post("/v1/vector-dbs", bank).status == 200
        assert post("/v1/vector-io/insert", {"vector_db_id": "birds", "chunks": chunks}).status == 200
        found = post("/v1/vector-io/query", {"vector_db_id": "birds", "query": "dive"})
        elsewhere = post(EMBED, {"model_id": "off", "contents": ["a"]})
    assert [chunk["content"] for chunk in found.json()["chunks"]] == ["Terns dive."]
    assert (elsewhere.status, elsewhere.refusal()) == (503, str(Overloaded(1)))


@BOTH
@STREAMED
def test_a_client_that_leaves_cancels_the_answer(tmp_path: Path, path: str, stream: bool) -> None:
    endless = (text_chunk("Once"), *[Pause(0.1), text_chunk(" more")] * 600)
    with world(tmp_path, lambda _: endless) as (serving, model):
        began = time.monotonic()
        serving.client._loop.run_until_complete(
            Leaver(request_to(path, stream=stream)).send_and_leave(serving.client.app, path)
        )
        serving._settle()
        assert time.monotonic() - began < PATIENCE_S
        assert len(model.requests) == 1


@BOTH
def test_a_server_that_stops_reports_it(tmp_path: Path, path: str) -> None:
    endless = (text_chunk("Once"), *[Pause(0.1), text_chunk(" more")] * 600)
    with world(tmp_path, lambda _: endless) as (serving, _):
        for stream in (True, False):
            sent = serving.client._loop.run_until_complete(cancelled(serving, path, request_to(path, stream=stream)))
            assert b"the server is shutting down" in b"".join(message.get("body", b"") for message in sent)
            assert sent[0]["status"] == (200 if stream else 503)
        serving._settle()


async def cancelled(serving: Served, path: str, body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the parts of an answer whose task the server cancels when it stops."""
    sent: list[Mapping[str, Any]] = []
    incoming = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

    async def receive() -> Mapping[str, Any]:
        if not incoming:
            await asyncio.Event().wait()
        return incoming.pop()

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    task = asyncio.ensure_future(serving.client.app(scope_of(Raw("POST", path.encode())), receive, send))
    await asyncio.sleep(0.3)
    task.cancel()
    await task
    return sent
