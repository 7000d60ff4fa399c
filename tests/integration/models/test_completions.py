"""Texts continued over HTTP, and answers stored: what models are sent, what goes wrong, who breaks it off.

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


def asked(path: str, prompt: Any = "Once upon", **fields: Any) -> dict[str, Any]:
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


def test_each_prompt_is_continued_by_itself_and_echoed_where_wanted(tmp_path: Path) -> None:
    fields = {"prompt": ["One", "Two"], "echo": True}
    with world(tmp_path, continues) as (serving, model):
        whole = serving.client.post(OPENAI, asked(OPENAI, **fields)).json()
        streamed = events_of(serving.client.post(OPENAI, asked(OPENAI, **fields, stream=True)))
    assert [sent["prompt"] for sent in model.requests] == ["One", "Two"] * 2
    texts = [(0, "One after One", "stop"), (1, "Two after Two", "stop")]
    assert [(choice["index"], choice["text"], choice["finish_reason"]) for choice in whole["choices"]] == texts
    assert whole["usage"] == {"prompt_tokens": 6, "completion_tokens": 4, "total_tokens": 10}
    choices = [choice for event in streamed for choice in event["choices"]]
    for index, text, _ in texts:
        assert "".join(choice["text"] for choice in choices if choice["index"] == index) == text
    assert [choice["index"] for choice in choices] == sorted(choice["index"] for choice in choices)


def test_the_echo_of_a_long_prompt_is_streamed_in_pieces_and_no_sooner_than_the_answer(tmp_path: Path) -> None:
    prompt = "a long way \U0001f600 " * 20_000
    with world(tmp_path, lambda body: continues(body) if body["prompt"] == prompt else HttpAnswer(400, {})) as (
        serving,
        _,
    ):
        body = asked(OPENAI, prompt, echo=True, stream=True)
        choices = [choice for event in events_of(serving.client.post(OPENAI, body)) for choice in event["choices"]]
        assert serving.client.post(OPENAI, body | {"prompt": "no"}).status >= 400
    assert "".join(choice["text"] for choice in choices) == f"{prompt} after {prompt}"
    assert max(len(choice["text"]) for choice in choices[:-3]) < 20_000


def test_what_such_servers_take_is_passed_on_to_them(tmp_path: Path) -> None:
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
        "min_p": 0.1,  # unknown here
    }
    with world(tmp_path, continues) as (serving, model):
        assert serving.client.post(OPENAI, asked(OPENAI, **fields)).status == 200
    (sent,) = model.requests
    del fields["top_p"]  # means nothing where there is no temperature
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
        answers = [serving.client.post(path, asked(path)).json() for _ in range(2)]
        told = serving.client.post(OPENAI, asked(OPENAI, suffix="x"))
    texts = [answer["content"] if path == LLAMA else answer["choices"][0]["text"] for answer in answers]
    assert texts == ["in a chat"] * 2
    assert len(seen) == 1, "it is remembered that this model is one for chats"
    assert [sent["messages"] for sent in model.requests if "messages" in sent] == [
        [{"role": "user", "content": "Once upon"}]
    ] * 2
    assert (told.status, "no completions" in told.refusal()) == (400, True)


def test_a_model_that_is_not_there_at_all_is_not_taken_for_one_for_chats(tmp_path: Path) -> None:
    missing = [error_answer(404, "no such model")]
    loaded: list[bool] = []

    def complete(body: Mapping[str, Any]) -> Answer:
        return continues(body) if loaded else error_answer(404, "no such model")

    with world(tmp_path, complete, missing) as (serving, _):
        assert serving.client.post(OPENAI, asked(OPENAI)).status == 404
        loaded.append(True)
        assert serving.client.post(OPENAI, asked(OPENAI)).json()["choices"][0]["text"] == " after Once upon"


@pytest.mark.parametrize(
    "fields",
    [
        {"content": [{"type": "text", "text": "What is it?"}, {"type": "image", "image": {"data": "iVBORw0KGgo="}}]},
        {"response_format": {"type": "json_schema", "json_schema": {"type": "object"}}},
    ],
    ids=["image", "format"],
)
def test_what_completions_can_not_say_is_a_chat(tmp_path: Path, fields: dict[str, Any]) -> None:
    with world(tmp_path, continues) as (serving, model):
        assert serving.client.post(LLAMA, asked(LLAMA, **fields)).json()["content"] == "in a chat"
    (sent,) = model.requests
    assert "messages" in sent


@BOTH
@STREAMED
def test_a_refusal_of_the_model_is_a_status_that_repeats_no_prompt(tmp_path: Path, path: str, stream: bool) -> None:
    def refuse(body: Mapping[str, Any]) -> HttpAnswer:
        return error_answer(400, f"too hard: {body['prompt']}")

    with world(tmp_path, refuse) as (serving, _):
        answer = serving.client.post(path, asked(path, "a secret prompt of somebody", stream=stream))
    assert answer.status == 400
    assert "too hard" in answer.refusal()
    assert "secret" not in answer.refusal()


@BOTH
def test_a_model_that_breaks_off_is_an_event_in_a_stream_and_a_status_otherwise(tmp_path: Path, path: str) -> None:
    broken = (prompt_chunk("Once"), Pause(0.05), BreakOff())
    with world(tmp_path, lambda _: broken) as (serving, _):
        streamed = serving.client.post(path, asked(path, stream=True))
        whole = serving.client.post(path, asked(path))
    assert (streamed.status, whole.status) == (200, 502)
    assert "broke off" in events_of(streamed)[-1]["error"]["message"]
    assert b"[DONE]" not in streamed.body


def test_a_server_that_answers_at_once_is_understood(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    whole = HttpAnswer(200, {**prompt_chunk(" a time", "length"), "usage": usage})
    with world(tmp_path, lambda _: whole) as (serving, _):
        told = serving.client.post(OPENAI, asked(OPENAI)).json()
    assert (told["choices"][0]["text"], told["choices"][0]["finish_reason"]) == (" a time", "length")
    assert told["usage"] == usage


@BOTH
def test_an_answer_too_many_is_refused(tmp_path: Path, path: str) -> None:
    with world(tmp_path, continues, max_running_turns=1, place_wait_seconds=0) as (serving, _):
        with serving.server.core.executor.permit("acme"):
            refused = serving.client.post(path, asked(path))
        assert (refused.status, refused.refusal()) == (503, str(Overloaded(1)))
        assert serving.client.post(path, asked(path)).status == 200


@BOTH
@STREAMED
def test_who_leaves_breaks_the_continuation_off(tmp_path: Path, path: str, stream: bool) -> None:
    endless = (prompt_chunk("Once"), *[Pause(0.1), prompt_chunk(" more")] * 600)
    with world(tmp_path, lambda _: endless) as (serving, model):
        began = time.monotonic()
        prompt = ["One", "Two"] if path == OPENAI else "One"
        leaver = Leaver(asked(path, prompt, stream=stream))
        serving.client._loop.run_until_complete(leaver.send_and_leave(serving.client.app, path))
        serving._settle()
        assert time.monotonic() - began < PATIENCE_S
        assert len(model.requests) == 1


@BOTH
def test_nothing_is_stored_of_a_continuation(tmp_path: Path, path: str) -> None:
    with world(tmp_path, continues) as (serving, _):
        before = serving.marks()
        assert serving.client.post(path, asked(path)).status == 200
        assert serving.marks() == before


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [QUESTION], **fields}


def ids_of(serving: Served) -> list[str]:
    return [entry["id"] for entry in serving.client.get(STORED).json()["data"]]


@pytest.mark.parametrize("fields", [{}, {"store": False}, {"store": None}, {"metadata": {"a": "b"}}])
@STREAMED
def test_what_is_not_to_be_stored_is_not(tmp_path: Path, fields: dict[str, Any], stream: bool) -> None:
    with world(tmp_path) as (serving, _):
        before = serving.marks()
        assert serving.client.post(STORED, chat(**fields, stream=stream)).status == 200
        assert serving.marks() == before
        assert ids_of(serving) == []


@STREAMED
def test_the_end_of_an_answer_comes_after_it_is_stored(tmp_path: Path, stream: bool) -> None:
    tool = {"type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}, "id": "c1"}
    said = [
        {"role": "user", "content": [{"type": "text", "text": "Add."}]},
        {"role": "assistant", "tool_calls": [tool]},
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
    ]
    with world(tmp_path, script=[call_answer(("add", '{"a": 2}'))]) as (serving, _):
        answer = serving.client.post(STORED, chat(messages=said, store=True, metadata={"a": "b"}, stream=stream))
        (completion_id,) = {event["id"] for event in events_of(answer)} if stream else {answer.json()["id"]}
        stored = serving.client.get(f"{STORED}/{completion_id}").json()
        assert serving.client.get(f"/v1/chat/completions/{completion_id}").json() == stored
        messages = serving.client.get(f"{STORED}/{completion_id}/messages?limit=2").json()
        more = serving.client.get(f"{STORED}/{completion_id}/messages?after={messages['last_id']}").json()
        last = serving.client.get(f"{STORED}/{completion_id}/messages?order=desc&limit=1").json()
    assert stored["input_messages"] == said
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
        *said, end = events_of(answer)
        assert "in a chat" == "".join(event["choices"][0]["delta"].get("content", "") for event in said)
        assert "store" in end["error"]["message"]
        assert b"[DONE]" not in answer.body
        assert not [event for event in said if event["choices"][0]["finish_reason"]]
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
    ("query", "said"),
    [
        ("?limit=0", "limit"),
        ("?limit=x", "limit"),
        ("?order=up", "order"),
        ("?after=chatcmpl-1", "after"),
        ("?after=a&after=b", "after"),
        ("?metadata[a]=1&metadata[a]=2", "metadata"),
    ],
)
def test_what_is_wrong_with_a_list_is_named(tmp_path: Path, query: str, said: str) -> None:
    with world(tmp_path) as (serving, _):
        refused = serving.client.get(STORED + query)
    assert refused.status == 400
    assert refused.json()["error"]["param"].startswith(said)
    assert refused.json()["error"]["message"].count(said + ":") <= 1


def test_a_large_question_is_kept_whole(tmp_path: Path) -> None:
    text = json.dumps(list(range(60_000)))
    with world(tmp_path) as (serving, _):
        told = serving.client.post(STORED, chat(messages=[{"role": "user", "content": text}], store=True)).json()
        found = serving.client.get(f"{STORED}/{told['id']}").json()
        (listed,) = serving.client.get(STORED).json()["data"]
        assert found == listed
        assert found["input_messages"][0]["content"] == text
        assert serving.client.post(f"{STORED}/{told['id']}", {"metadata": {"a": "b"}}).json()["metadata"] == {"a": "b"}


def test_a_page_names_nothing_that_is_anothers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is empty, because too many in between are hidden, ends at an id that nothing has."""
    monkeypatch.setattr("turnstone.services.access.listing.MOST_HIDDEN", 2)
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
