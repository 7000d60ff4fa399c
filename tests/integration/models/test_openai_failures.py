"""How OpenAICompatibleInference fails: its messages, its retries, and the data it never shows.

Covers: adapters/outgoing/failed_attempt, adapters/models/openai/openai_compatible, adapters/models/openai/model_access,
  adapters/models/openai/model_responses, adapters/outgoing/quoting
"""

import json
import logging
import re
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.models.openai_answers import (
    Answer,
    BreakOff,
    HangUp,
    HttpAnswer,
    Item,
    Pause,
    text_answer,
    text_chunk,
)
from tests.fakes.models.openai_server import ModelServer, Script
from tests.support.models.model_client import KEY, QUESTION, request, streamed_answer, texts_of
from turnstone.adapters.models.openai.model_access import ModelAccess, SettingNames
from turnstone.adapters.models.openai.openai_compatible import OpenAICompatibleInference
from turnstone.adapters.outgoing.quoting import without_address
from turnstone.domain.errors import ModelBusy, ModelFailed, ModelNotFound, ModelTimedOut
from turnstone.domain.messages.messages import CompletionMessage, ToolResponseMessage, UserMessage
from turnstone.domain.provider_data import NO_PROVIDER_DATA, ProviderData
from turnstone.domain.tools.tools import call_from_json
from turnstone.domain.values.content import TextItem


def failure_of(script: Script, error: type[Exception] = ModelFailed, timeout_s: float = 5) -> tuple[str, int]:
    """Return the message of the failure, and how many requests the server received."""
    with ModelServer(script) as server, pytest.raises(error) as caught:
        streamed_answer(server, timeout_s=timeout_s)
    return str(caught.value), len(server.requests)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (HttpAnswer(400, {"error": {"message": "too long"}}), r"\(HTTP 400\): too long"),
        (HttpAnswer(422, {"detail": [{"loc": ["body"], "msg": "no"}]}), r"\(HTTP 422\): \['body'\]: no"),
        (HttpAnswer(500, {"error": "oh"}), r"\(HTTP 500\): oh"),
        (HttpAnswer(500, {"detail": "oh"}), r"\(HTTP 500\): oh"),
        (HttpAnswer(500, b"plain\n  text"), r"\(HTTP 500\): plain text$"),
        (HttpAnswer(500, b""), r"\(HTTP 500\)$"),
        (HttpAnswer(401, {"error": {"message": "no"}}), "check TURNSTONE_MODEL_API_KEY"),
        (HttpAnswer(404, {"error": {"message": "no"}}), "model 'm' not found by the model server; check"),
        (HttpAnswer(307, b"", {"Location": "/v1/models"}), "redirects; set TURNSTONE_MODEL_URL"),
        (HttpAnswer(200, b"<html>"), "does not answer as an OpenAI-compatible API"),
        (HttpAnswer(200, {"hello": 1}), "JSON that is not a chat completion"),
        (HttpAnswer(200, b"{", {"Content-Type": "application/json"}), "not JSON"),
        ((b"data: nonsense\n\n",), "not JSON"),
        ((text_chunk("a"), {"error": {"message": "out of memory"}}), "while it answered: out of memory"),
        ((text_chunk("a"),), "broke off before its end"),
        ((), "broke off before its end"),
        ((text_chunk("a"), BreakOff()), "broke off"),
        ((b": ping\n\n", BreakOff()), "broke off"),
        ((b"data: " + b"x" * 17 * 1024 * 1024,), "more than 16777216 bytes"),
    ],
)
def test_a_failure_has_its_reason_and_is_not_repeated(answer: Answer, reason: str):
    with ModelServer([answer, text_answer("again")]) as server, pytest.raises(ModelFailed, match=reason):
        streamed_answer(server)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (HttpAnswer(401, {"error": "no"}), "the key; check providers.near.api_key_env"),
        (HttpAnswer(404, {"error": "no"}), "check the agent's model and providers.near.url"),
        (HttpAnswer(307, b"", {"Location": "/v1"}), "redirects; set providers.near.url"),
        (HttpAnswer(200, b"<html>"), "check providers.near.url"),
    ],
)
def test_a_provider_of_the_file_is_named_by_its_keys_in_the_file(answer: Answer, reason: str):
    named = SettingNames("providers.near.url", "providers.near.api_key_env")
    with ModelServer(lambda _: answer) as server, pytest.raises(ModelFailed, match=reason) as caught:
        list(OpenAICompatibleInference(server.url, ModelAccess(KEY, names=named)).stream(request()))
    assert "TURNSTONE_" not in str(caught.value)
    gone = OpenAICompatibleInference(server.url, ModelAccess(KEY, names=named))
    with pytest.raises(ModelFailed, match=r"and is providers\.near\.url its address"):
        list(gone.stream(request()))
    with pytest.raises(ValueError, match=r"\(providers\.near\.api_key_env\)"):
        ModelAccess("secret\nkey", names=named)


def test_a_caller_s_own_key_that_is_not_accepted_is_named():
    question = request(provider_data=ProviderData({"own": "sk-x"}))
    with ModelServer([HttpAnswer(401, {"error": "no"})]) as server:
        inference = OpenAICompatibleInference(server.url, ModelAccess(KEY, "own"))
        with pytest.raises(ModelFailed, match="check 'own' of the provider data"):
            list(inference.stream(question))


def test_the_servers_text_is_cut_short():
    reason, _ = failure_of([HttpAnswer(400, {"error": "x" * 5000})])
    assert reason.count("x") == 500


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_an_overloaded_server_is_retried_at_most_twice(status: int):
    busy = HttpAnswer(status, {"error": "busy"}, {"Retry-After": "0"})
    with ModelServer([busy, busy, text_answer("ok")]) as server:
        assert texts_of(streamed_answer(server)) == ["ok"]
    assert failure_of([busy, busy, busy, text_answer("ok")])[1] == 3


@pytest.mark.parametrize(
    ("status", "own_data", "is_outage"),
    [
        (429, NO_PROVIDER_DATA, True),
        (429, ProviderData({"own": "sk-of-the-caller"}), False),
        (500, ProviderData({"own": "sk-of-the-caller"}), True),
    ],
)
def test_the_limit_of_a_caller_s_own_key_is_no_outage_for_others(status: int, own_data: ProviderData, is_outage: bool):
    full = HttpAnswer(status, {"error": "quota"}, {"Retry-After": "60"})
    with ModelServer([full]) as server, pytest.raises(ModelFailed) as caught:
        list(OpenAICompatibleInference(server.url, ModelAccess(KEY, "own")).stream(request(provider_data=own_data)))
    assert caught.value.is_outage is is_outage


def test_a_short_retry_after_is_waited_for_and_a_long_one_is_not_retried():
    short, long = (HttpAnswer(503, {"error": "busy"}, {"Retry-After": seconds}) for seconds in ("1", "60"))
    with ModelServer([short, text_answer("ok")]) as server:
        started = time.monotonic()
        assert texts_of(streamed_answer(server)) == ["ok"]
        assert time.monotonic() - started >= 1
    assert failure_of([long, text_answer("ok")])[1] == 1


def test_a_server_that_hangs_up_before_it_answers_is_retried_at_most_twice():
    with ModelServer([HangUp(), HangUp(), text_answer("ok")]) as server:
        assert texts_of(streamed_answer(server)) == ["ok"]
    reason, count = failure_of([HangUp()] * 4)
    assert "hung up before it answered" in reason
    assert count == 3


def test_the_address_of_a_server_that_is_not_there_is_logged_and_not_shown(caplog: pytest.LogCaptureFixture):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    inference = OpenAICompatibleInference(f"http://user:password@127.0.0.1:{port}/v1", None)
    caplog.set_level(logging.INFO)
    for request_once in (lambda: list(inference.stream(request())), inference.models):
        caplog.clear()
        with pytest.raises(ModelFailed, match="can't connect to the model server; is it running") as caught:
            request_once()
        assert not {"127.0.0.1", str(port), "http"} & set(str(caught.value).replace(":", " ").split())
        (line,) = [
            record for record in caplog.records if record.name == "turnstone.adapters.models.openai.openai_compatible"
        ]
        assert line.levelname == "INFO"
        assert line.getMessage().startswith(f"the model server at http://127.0.0.1:{port}/v1 failed: can't connect")
        assert caught.value.log_fields["model_server"] == f"http://127.0.0.1:{port}/v1"
        assert "password" not in caplog.text


@pytest.mark.parametrize(
    "answer",
    [
        lambda at: HttpAnswer(500, {"error": f"upstream http://{at}/v1/chat refused"}),
        lambda at: HttpAnswer(429, {"error": f"see http://user:secret@{at}"}, {"Retry-After": "60"}),
        lambda at: HttpAnswer(404, f"HTTPConnectionPool(host='{at.split(':')[0]}', port={at.split(':')[1]})".encode()),
        lambda at: (text_chunk("a"), {"error": {"message": f"lost {at}"}}),
        lambda at: HttpAnswer(200, b"<html>"),
        lambda at: (text_chunk("a"), BreakOff()),
        lambda at: HttpAnswer(307, b"", {"Location": f"http://{at}/"}),
    ],
)
def test_no_failure_shows_the_address_wherever_it_appears(answer: Callable[[str], Answer]):
    server = ModelServer(lambda _: answer(f"127.0.0.1:{server.port}"))
    with server, pytest.raises(ModelFailed) as caught:
        streamed_answer(server)
    assert not re.search(rf"127\.0\.0\.1|{server.port}|secret", str(caught.value))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("HTTPConnectionPool(host='model', port=8000): refused", "HTTPConnectionPool([redacted], [redacted]): refused"),
        ("no route to model:8000", "no route to [redacted]"),
        ("the model takes 8000 tokens", "the model takes 8000 tokens"),
        ("see https://platform.openai.com/account", "see https://platform.openai.com/account"),
        ("messages[0:1] of 10.0.0.7:80 at http://vllm-0/v1, [::1]:9 or LOCALHOST:9", None),
    ],
)
def test_addresses_and_nothing_else_are_redacted_from_a_servers_message(text: str, shown: str | None):
    shown = shown or "messages[0:1] of [redacted] at [redacted] [redacted] or [redacted]"
    assert without_address(text, "model", 8000) == shown
    assert without_address("https://u:p@api.inner.corp:1/v1?k=v, api.inner.corp", "api.inner.corp", 1) == (
        "[redacted] [redacted]"
    )


@pytest.mark.parametrize(
    ("retry_after", "expected_s"), [("17", 17), ("999999999", 21_600), ("soon", None), ("9" * 5_000, None)]
)
def test_a_busy_server_s_wait_is_passed_on(retry_after: str, expected_s: int | None):
    busy = HttpAnswer(429, {"error": "busy"}, {"Retry-After": retry_after})
    with ModelServer(lambda _: busy) as server, pytest.raises(ModelBusy) as caught:
        streamed_answer(server)
    assert caught.value.retry_after_s == expected_s


def test_a_missing_model_is_distinguished_from_a_wrong_address():
    with pytest.raises(ModelNotFound), ModelServer([HttpAnswer(404, {"error": "The model `m` is unknown"})]) as server:
        streamed_answer(server)
    with pytest.raises(ModelFailed) as caught, ModelServer([HttpAnswer(404, {"detail": "no such path"})]) as server:
        streamed_answer(server)
    assert type(caught.value) is ModelFailed


@pytest.mark.parametrize(
    ("items", "reason"),
    [((Pause(5),), "did not answer in time"), ((text_chunk("a"), Pause(5)), "fell silent while it answered")],
)
def test_silence_before_and_within_an_answer_is_a_timeout_and_not_repeated(items: tuple[Item, ...], reason: str):
    message, count = failure_of([items, text_answer("ok")], ModelTimedOut, timeout_s=0.2)
    assert reason in message
    assert count == 1


@pytest.mark.parametrize(
    "wrap",
    [
        lambda echo: HttpAnswer(401, {"error": {"message": "x" * 490 + echo}}),
        lambda echo: HttpAnswer(400, {"detail": [{"loc": ["body"], "msg": "bad", "input": echo}]}),
        lambda echo: HttpAnswer(500, echo.encode()),
        lambda echo: (text_chunk("a"), {"error": {"message": echo}}),
    ],
)
def test_neither_the_key_nor_a_message_gets_into_an_error_or_a_log(wrap: Any, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    context = "a context just as private"
    echo = f"{KEY} is wrong for {QUESTION.content} and {context}"
    with ModelServer([wrap(echo)]) as server, pytest.raises(ModelFailed) as caught:
        streamed_answer(server, request(QUESTION, UserMessage(content="hi", context=context)))
    error: BaseException | None = caught.value
    shown = caplog.text
    while error is not None:
        shown += repr(error)
        error = error.__cause__ or error.__context__
    assert not [secret for secret in (KEY[:9], "question that", context) if secret in shown]


@pytest.mark.parametrize("wrap", [str, json.dumps, lambda body: json.dumps(json.dumps(body))])
def test_no_part_of_a_repeated_request_gets_into_an_error_however_it_is_escaped(wrap: Any):
    arguments = {"place": 'a "private" street', "at": ["the 7th of \u2603 in private"]}
    made = call_from_json("c1", "look", json.dumps(arguments))
    messages = (
        UserMessage(content='my "private"\nquestion \u2603'),
        UserMessage(content=(TextItem(text="one private\tpart"), TextItem(text="two private parts"))),
        CompletionMessage(content="", stop_reason="end_of_turn", tool_calls=(made,)),
        ToolResponseMessage(call_id="c1", content='{"private": "answer \\ of a tool"}'),
    )

    def repeats(body: Any) -> HttpAnswer:
        return HttpAnswer(400, {"error": f"bad: {wrap(body['messages'])}"})

    with ModelServer(repeats) as server, pytest.raises(ModelFailed) as caught:
        streamed_answer(server, request(*messages))
    assert "bad: " in str(caught.value)
    assert "private" not in str(caught.value)


def test_a_key_that_no_header_can_carry_is_refused_without_being_shown():
    with pytest.raises(ValueError, match="TURNSTONE_MODEL_API_KEY") as caught:
        OpenAICompatibleInference("http://localhost/v1", "secret\nkey")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("listed", "reason"),
    [
        (HttpAnswer(404, {"error": "no"}), "the list of models not found"),
        (HttpAnswer(401, {"error": "no"}), "TURNSTONE_MODEL_API_KEY"),
        (HttpAnswer(200, b"<html>"), "does not list models"),
        (HttpAnswer(200, {"data": [{}]}), "does not list models"),
        (HttpAnswer(200, {"models": []}), "does not list models"),
    ],
)
def test_models_that_cannot_be_listed_fail(listed: HttpAnswer, reason: str):
    with ModelServer(listed=listed) as server, pytest.raises(ModelFailed, match=reason):
        OpenAICompatibleInference(server.url, None).models()
