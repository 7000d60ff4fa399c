"""Texts continued over HTTP, and stored answers: the requests of models, failures, and cancellation.

Covers: services/models/inferring, services/models/answer_stream, adapters/models/openai/openai_completions
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.openai_answers import (
    Answer,
    BreakOff,
    HttpAnswer,
    Pause,
    call_answer,
    ending,
    error_answer,
    prompt_answer,
    prompt_chunk,
    text_answer,
    text_chunk,
)
from tests.fakes.models.openai_server import ModelServer
from tests.support.models.answer_readers import Leaver, events_of
from tests.support.server.asgi_client import Served, served
from turnstone.domain.errors import Overloaded, StoreUnavailable

OPENAI, LLAMA = "/v1/openai/v1/completions", "/v1/inference/completion"
STORED = "/v1/openai/v1/chat/completions"
BOTH = pytest.mark.parametrize("path", [OPENAI, LLAMA])
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
PATIENCE_S = 5.0
QUESTION = {"role": "user", "content": "a question"}


def request_to(path: str, prompt: Any = "Once upon", **fields: Any) -> dict[str, Any]:
    return (
        {"model": "m", "prompt": prompt, **fields} if path == OPENAI else {"model_id": "m", "content": prompt} | fields
    )


@contextmanager
def world(tmp_path: Path, complete: Any = None, script: Any = None, **settings: Any) -> Iterator[tuple[Served, Any]]:
    answers = script or (lambda _: text_answer("in", " a chat"))
    with ModelServer(answers, complete=complete) as model, served(tmp_path, model_url=model.url, **settings) as serving:
        yield serving, model


def continues(body: Mapping[str, Any]) -> Answer:
    return prompt_answer(" after ", str(body["prompt"]))


def test_each_prompt_is_continued_by_itself_and_echoed_on_request(tmp_path: Path) -> None:
    fields = {"prompt": ["One", "Two"], "echo": True}
    with world(tmp_path, continues) as (serving, model):
        whole = serving.client.post(OPENAI, request_to(OPENAI, **fields)).json()
        streamed = events_of(serving.client.post(OPENAI, request_to(OPENAI, **fields, stream=True)))
    assert [sent["prompt"] for sent in model.requests] == ["One", "Two"] * 2
    texts = [(0, "One after One", "stop"), (1, "Two after Two", "stop")]
    assert [(choice["index"], choice["text"], choice["finish_reason"]) for choice in whole["choices"]] == texts
    assert whole["usage"] == {"prompt_tokens": 6, "completion_tokens": 4, "total_tokens": 10}
    choices = [choice for event in streamed for choice in event["choices"]]
    for index, text, _ in texts:
        assert "".join(choice["text"] for choice in choices if choice["index"] == index) == text
    assert [choice["index"] for choice in choices] == sorted(choice["index"] for choice in choices)


def test_the_echo_of_a_long_prompt_is_streamed_in_pieces_and_not_before_the_answer(tmp_path: Path) -> None:
    prompt = "a long way \U0001f600 " * 20_000
    with world(tmp_path, lambda body: continues(body) if body["prompt"] == prompt else HttpAnswer(400, {})) as (
        serving,
        _,
    ):
        body = request_to(OPENAI, prompt, echo=True, stream=True)
        choices = [choice for event in events_of(serving.client.post(OPENAI, body)) for choice in event["choices"]]
        assert serving.client.post(OPENAI, body | {"prompt": "no"}).status >= 400
    assert "".join(choice["text"] for choice in choices) == f"{prompt} after {prompt}"
    assert max(len(choice["text"]) for choice in choices[:-3]) < 20_000


def test_fields_of_completion_servers_are_passed_on(tmp_path: Path) -> None:
    fields = {
        "suffix": " The end.",
        "seed": 7,
        "user": "ann",
        "frequency_penalty": 0.5,
        "presence_penalty": -0.5,
        "logit_bias": {"5": -100.0},
        "guided_choice": ["yes", "no"],
        "temperature": 0,
        "top_p": 0.9,
        "max_tokens": 5,
        "stop": ["\n"],
        "min_p": 0.1,  # not a field of this API
    }
    with world(tmp_path, continues) as (serving, model):
        assert serving.client.post(OPENAI, request_to(OPENAI, **fields)).status == 200
    (sent,) = model.requests
    del fields["top_p"]  # has no meaning without a temperature
    assert sent == {
        **{"model": "m", "prompt": "Once upon", "stream": True, "stream_options": {"include_usage": True}},
        **fields,
    }


@pytest.mark.parametrize("status", [404, 405, 501])
@BOTH
def test_where_a_server_has_no_completions_the_prompt_is_a_message_of_a_chat(
    tmp_path: Path, path: str, status: int
) -> None:
    seen: list[Any] = []

    def refuse(body: Mapping[str, Any]) -> HttpAnswer:
        seen.append(body)
        return error_answer(status, "This is a chat model")

    with world(tmp_path, refuse) as (serving, model):
        answers = [serving.client.post(path, request_to(path)).json() for _ in range(2)]
        with_suffix = serving.client.post(OPENAI, request_to(OPENAI, suffix="x"))
    texts = [answer["content"] if path == LLAMA else answer["choices"][0]["text"] for answer in answers]
    assert texts == ["in a chat"] * 2
    assert len(seen) == 1, "it is remembered that this model is one for chats"
    assert [sent["messages"] for sent in model.requests if "messages" in sent] == [
        [{"role": "user", "content": "Once upon"}]
    ] * 2
    assert (with_suffix.status, "no completions" in with_suffix.refusal()) == (400, True)


def test_a_model_that_is_not_there_at_all_is_not_taken_for_one_for_chats(tmp_path: Path) -> None:
    missing = [error_answer(404, "no such model")]
    loaded: list[bool] = []

    def complete(body: Mapping[str, Any]) -> Answer:
        return continues(body) if loaded else error_answer(404, "no such model")

    with world(tmp_path, complete, missing) as (serving, _):
        assert serving.client.post(OPENAI, request_to(OPENAI)).status == 404
        loaded.append(True)
        assert serving.client.post(OPENAI, request_to(OPENAI)).json()["choices"][0]["text"] == " after Once upon"


@pytest.mark.parametrize(
    "fields",
    [
        {"content": [{"type": "text", "text": "What is it?"}, {"type": "image", "image": {"data": "iVBORw0KGgo="}}]},
        {"response_format": {"type": "json_schema", "json_schema": {"type": "object"}}},
    ],
    ids=["image", "format"],
)
def test_a_request_that_completions_can_not_express_is_a_chat(tmp_path: Path, fields: dict[str, Any]) -> None:
    with world(tmp_path, continues) as (serving, model):
        assert serving.client.post(LLAMA, request_to(LLAMA, **fields)).json()["content"] == "in a chat"
    (sent,) = model.requests
    assert "messages" in sent


@BOTH
@STREAMED
def test_a_refusal_of_the_model_is_a_status_that_repeats_no_prompt(tmp_path: Path, path: str, stream: bool) -> None:
    def refuse(body: Mapping[str, Any]) -> HttpAnswer:
        return error_answer(400, f"too hard: {body['prompt']}")

    with world(tmp_path, refuse) as (serving, _):
        answer = serving.client.post(path, request_to(path, "a secret prompt of somebody", stream=stream))
    assert answer.status == 400
    assert "too hard" in answer.refusal()
    assert "secret" not in answer.refusal()


@BOTH
def test_a_model_that_fails_midway_is_an_event_in_a_stream_and_a_status_otherwise(tmp_path: Path, path: str) -> None:
    broken = (prompt_chunk("Once"), Pause(0.05), BreakOff())
    with world(tmp_path, lambda _: broken) as (serving, _):
        streamed = serving.client.post(path, request_to(path, stream=True))
        whole = serving.client.post(path, request_to(path))
    assert (streamed.status, whole.status) == (200, 502)
    assert "broke off" in events_of(streamed)[-1]["error"]["message"]
    assert b"[DONE]" not in streamed.body


def test_an_unstreamed_answer_is_read(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    whole = HttpAnswer(200, {**prompt_chunk(" a time", "length"), "usage": usage})
    with world(tmp_path, lambda _: whole) as (serving, _):
        answer = serving.client.post(OPENAI, request_to(OPENAI)).json()
    assert (answer["choices"][0]["text"], answer["choices"][0]["finish_reason"]) == (" a time", "length")
    assert answer["usage"] == usage


@BOTH
def test_an_answer_too_many_is_refused(tmp_path: Path, path: str) -> None:
    with world(tmp_path, continues, max_running_turns=1, place_wait_seconds=0) as (serving, _):
        with serving.server.core.executor.permit("acme"):
            refused = serving.client.post(path, request_to(path))
        assert (refused.status, refused.refusal()) == (503, str(Overloaded(1)))
        assert serving.client.post(path, request_to(path)).status == 200


@BOTH
@STREAMED
def test_a_client_that_leaves_cancels_the_continuation(tmp_path: Path, path: str, stream: bool) -> None:
    endless = (prompt_chunk("Once"), *[Pause(0.1), prompt_chunk(" more")] * 600)
    with world(tmp_path, lambda _: endless) as (serving, model):
        began = time.monotonic()
        prompt = ["One", "Two"] if path == OPENAI else "One"
        leaver = Leaver(request_to(path, prompt, stream=stream))
        serving.client._loop.run_until_complete(leaver.send_and_leave(serving.client.app, path))
        serving._settle()
        assert time.monotonic() - began < PATIENCE_S
        assert len(model.requests) == 1


@BOTH
def test_nothing_is_stored_of_a_continuation(tmp_path: Path, path: str) -> None:
    with world(tmp_path, continues) as (serving, _):
        before = serving.marks()
        assert serving.client.post(path, request_to(path)).status == 200
        assert serving.marks() == before


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [QUESTION], **fields}


def ids_of(serving: Served) -> list[str]:
    return [entry["id"] for entry in serving.client.get(STORED).json()["data"]]


@pytest.mark.parametrize("fields", [{}, {"store": False}, {"store": None}, {"metadata": {"a": "b"}}])
@STREAMED
def test_an_answer_is_not_stored_without_the_request_to_store_it(
    tmp_path: Path, fields: dict[str, Any], stream: bool
) -> None:
    with world(tmp_path) as (serving, _):
        before = serving.marks()
        assert serving.client.post(STORED, chat(**fields, stream=stream)).status == 200
        assert serving.marks() == before
        assert ids_of(serving) == []


@STREAMED
def test_the_end_of_an_answer_comes_after_it_is_stored(tmp_path: Path, stream: bool) -> None:
    tool = {"type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}, "id": "c1"}
    sent = [
        {"role": "user", "content": [{"type": "text", "text": "Add."}]},
        {"role": "assistant", "tool_calls": [tool]},
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
    ]
    with world(tmp_path, script=[call_answer(("add", '{"a": 2}'))]) as (serving, _):
        answer = serving.client.post(STORED, chat(messages=sent, store=True, metadata={"a": "b"}, stream=stream))
        (completion_id,) = {event["id"] for event in events_of(answer)} if stream else {answer.json()["id"]}
        stored = serving.client.get(f"{STORED}/{completion_id}").json()
        assert serving.client.get(f"/v1/chat/completions/{completion_id}").json() == stored
        messages = serving.client.get(f"{STORED}/{completion_id}/messages?limit=2").json()
        more = serving.client.get(f"{STORED}/{completion_id}/messages?after={messages['last_id']}").json()
        last = serving.client.get(f"{STORED}/{completion_id}/messages?order=desc&limit=1").json()
    assert stored["input_messages"] == sent
    assert stored["metadata"] == {"a": "b"}
    (choice,) = stored["choices"]
    assert (choice["finish_reason"], choice["message"]["tool_calls"][0]["function"]["name"]) == ("tool_calls", "add")
    assert [(each["role"], each["content"]) for each in messages["data"]] == [("user", None), ("assistant", None)]
    assert messages["has_more"] is True
    assert [(each["role"], each["content"], each["tool_call_id"]) for each in more["data"]] == [("tool", "3", "c1")]
    assert (more["has_more"], last["data"]) == (False, more["data"])
    if not stream:
        assert {name: stored[name] for name in answer.json()} == answer.json()


@STREAMED
def test_an_answer_that_can_not_be_stored_is_none(
    tmp_path: Path, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    slowly_answered = (text_chunk("in"), Pause(0.3), text_chunk(" a chat"), Pause(0.3), *ending("stop"))
    with world(tmp_path, script=lambda _: slowly_answered) as (serving, _):

        def fail(*_: Any) -> None:
            raise StoreUnavailable("the disk is full")

        monkeypatch.setattr(serving.server.core.stored_completions._store._store, "write", fail)
        answer = serving.client.post(STORED, chat(store=True, stream=stream))
        assert serving.client.post(STORED, chat(stream=stream)).status == 200
        assert ids_of(serving) == []
    if stream:
        *chunks, end = events_of(answer)
        assert "in a chat" == "".join(event["choices"][0]["delta"].get("content", "") for event in chunks)
        assert "store" in end["error"]["message"]
        assert b"[DONE]" not in answer.body
        assert not [event for event in chunks if event["choices"][0]["finish_reason"]]
    else:
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")


@STREAMED
def test_of_an_answer_whose_client_leaves_nothing_is_stored(tmp_path: Path, stream: bool) -> None:
    endless = (text_chunk("Once"), *[Pause(0.1), text_chunk(" more")] * 600)
    with world(tmp_path, script=lambda _: endless) as (serving, _):
        leaver = Leaver(chat(store=True, stream=stream))
        serving.client._loop.run_until_complete(leaver.send_and_leave(serving.client.app, STORED))
        serving._settle()
        assert ids_of(serving) == []


def test_a_broken_answer_is_not_stored(tmp_path: Path) -> None:
    broken = (text_chunk("Once"), Pause(0.05), BreakOff())
    with world(tmp_path, script=[broken, broken]) as (serving, _):
        assert serving.client.post(STORED, chat(store=True)).status == 502
        serving.client.post(STORED, chat(store=True, stream=True))
        assert ids_of(serving) == []


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ("?limit=0", "limit"),
        ("?limit=x", "limit"),
        ("?order=up", "order"),
        ("?after=chatcmpl-1", "after"),
        ("?after=a&after=b", "after"),
        ("?metadata[a]=1&metadata[a]=2", "metadata"),
    ],
)
def test_the_invalid_parameter_of_a_list_is_named(tmp_path: Path, query: str, parameter: str) -> None:
    with world(tmp_path) as (serving, _):
        refused = serving.client.get(STORED + query)
    assert refused.status == 400
    assert refused.json()["error"]["param"].startswith(parameter)
    assert refused.json()["error"]["message"].count(parameter + ":") <= 1


def test_a_large_question_is_kept_whole(tmp_path: Path) -> None:
    text = json.dumps(list(range(60_000)))
    with world(tmp_path) as (serving, _):
        kept = serving.client.post(STORED, chat(messages=[{"role": "user", "content": text}], store=True)).json()
        found = serving.client.get(f"{STORED}/{kept['id']}").json()
        (listed,) = serving.client.get(STORED).json()["data"]
        assert found == listed
        assert found["input_messages"][0]["content"] == text
        assert serving.client.post(f"{STORED}/{kept['id']}", {"metadata": {"a": "b"}}).json()["metadata"] == {"a": "b"}


def test_a_page_shows_nothing_of_another_callers_completions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page left empty by too many hidden entries ends at an id that belongs to no completion."""
    monkeypatch.setattr("turnstone.services.access.visible_list.MOST_HIDDEN", 2)
    monkeypatch.setattr("turnstone.services.models.stored_completions.MOST_BEFORE_FIRST", 4)
    with world(tmp_path) as (serving, _):
        first, *hidden = [
            serving.client.post(STORED, chat(store=True, model=model)).json()["id"]
            for model in ("m", *["other"] * 9, "m")
        ]
        last = hidden.pop()
        found, after, pages = [], "", 0
        while pages < 20:
            page = serving.client.get(f"{STORED}?model=m{after}").json()
            assert not set(hidden) & set(re.findall(r"chatcmpl-[0-9a-f-]+", json.dumps(page)))
            found += [entry["id"] for entry in page["data"]]
            after, pages = f"&after={page['last_id']}", pages + 1
            if not page["has_more"]:
                break
    assert found == [last, first]
    assert pages > 2
