"""How OpenAICompatibleInference fails: what it says, what it repeats, and what it keeps to itself."""

import logging
import socket
import time
from typing import Any

import pytest

from tests.fakes.openai_answers import (
    Answer,
    BreakOff,
    HangUp,
    HttpAnswer,
    Item,
    Pause,
    text_answer,
    text_chunk,
)
from tests.fakes.openai_server import ModelServer, Script
from tests.integration.model_client import KEY, QUESTION, asked, request, texts_of
from turnstone.adapters.model_access import ModelAccess
from turnstone.adapters.openai_compatible import OpenAICompatibleInference
from turnstone.domain.errors import ModelFailed, ModelTimedOut
from turnstone.domain.messages import UserMessage
from turnstone.domain.provider_data import NO_PROVIDER_DATA, ProviderData


def failure_of(script: Script, error: type[Exception] = ModelFailed, timeout_s: float = 5) -> tuple[str, int]:
    """Return what the failure says, and how often the server was asked."""
    with ModelServer(script) as server, pytest.raises(error) as caught:
        asked(server, timeout_s=timeout_s)
    return str(caught.value), len(server.requests)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (HttpAnswer(400, {"error": {"message": "too long"}}), r"\(HTTP 400\): too long"),
        (HttpAnswer(422, {"detail": [{"loc": ["body"], "msg": "no"}]}), r"\(HTTP 422\): \['body'\]: no"),
        (HttpAnswer(500, {"error": "oh"}), r"\(HTTP 500\): oh"),
        (HttpAnswer(500, {"detail": "oh"}), r"\(HTTP 500\): oh"),
        (HttpAnswer(500, b"plain\n  text"), r"\(HTTP 500\): plain text$"),
        (HttpAnswer(500, b""), r"\(HTTP 500\)$"),
        (HttpAnswer(401, {"error": {"message": "no"}}), "check TURNSTONE_MODEL_API_KEY"),
        (HttpAnswer(404, {"error": {"message": "no"}}), "model 'm' not found at http://127.0.0.1:"),
        (HttpAnswer(307, b"", {"Location": "/v1/models"}), "redirects elsewhere; set TURNSTONE_MODEL_URL"),
        (HttpAnswer(200, b"<html>"), "does not answer as an OpenAI-compatible API"),
        (HttpAnswer(200, {"hello": 1}), "JSON that is no chat completion"),
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
def test_a_failure_says_what_happened_and_is_not_repeated(answer: Answer, said: str):
    with ModelServer([answer, text_answer("again")]) as server, pytest.raises(ModelFailed, match=said):
        asked(server)
    assert len(server.requests) == 1


def test_the_servers_text_is_cut_short():
    said, _ = failure_of([HttpAnswer(400, {"error": "x" * 5000})])
    assert said.count("x") == 500


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_an_overloaded_server_is_asked_again_at_most_twice(status: int):
    busy = HttpAnswer(status, {"error": "busy"}, {"Retry-After": "0"})
    with ModelServer([busy, busy, text_answer("ok")]) as server:
        assert texts_of(asked(server)) == ["ok"]
    assert failure_of([busy, busy, busy, text_answer("ok")])[1] == 3


@pytest.mark.parametrize(
    ("status", "handed_on", "is_outage"),
    [
        (429, NO_PROVIDER_DATA, True),
        (429, ProviderData({"own": "sk-of-the-caller"}), False),
        (500, ProviderData({"own": "sk-of-the-caller"}), True),
    ],
)
def test_the_limit_of_a_caller_s_own_key_is_no_outage_for_others(status: int, handed_on: ProviderData, is_outage: bool):
    full = HttpAnswer(status, {"error": "quota"}, {"Retry-After": "60"})
    with ModelServer([full]) as server, pytest.raises(ModelFailed) as caught:
        list(OpenAICompatibleInference(server.url, ModelAccess(KEY, "own")).stream(request(provider_data=handed_on)))
    assert caught.value.is_outage is is_outage


def test_a_server_that_asks_for_a_short_wait_gets_it_and_for_a_long_one_is_not_asked_again():
    short, long = (HttpAnswer(503, {"error": "busy"}, {"Retry-After": seconds}) for seconds in ("1", "60"))
    with ModelServer([short, text_answer("ok")]) as server:
        started = time.monotonic()
        assert texts_of(asked(server)) == ["ok"]
        assert time.monotonic() - started >= 1
    assert failure_of([long, text_answer("ok")])[1] == 1


def test_a_server_that_hangs_up_before_it_answers_is_asked_again_at_most_twice():
    with ModelServer([HangUp(), HangUp(), text_answer("ok")]) as server:
        assert texts_of(asked(server)) == ["ok"]
    said, count = failure_of([HangUp()] * 4)
    assert "hung up before it answered" in said
    assert count == 3


def test_a_server_that_is_not_there_is_asked_for_by_its_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://user:password@127.0.0.1:{free.getsockname()[1]}/v1"
    inference = OpenAICompatibleInference(url, None)
    with pytest.raises(ModelFailed, match=r"is the model server running at http://127.0.0.1:\d+/v1\?"):
        list(inference.stream(request()))
    with pytest.raises(ModelFailed, match="running"):
        inference.models()


@pytest.mark.parametrize(
    ("items", "said"),
    [((Pause(5),), "did not answer in time"), ((text_chunk("a"), Pause(5)), "fell silent while it answered")],
)
def test_silence_before_and_within_an_answer_is_a_timeout_and_not_repeated(items: tuple[Item, ...], said: str):
    message, count = failure_of([items, text_answer("ok")], ModelTimedOut, timeout_s=0.2)
    assert said in message
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
        asked(server, request(QUESTION, UserMessage(content="hi", context=context)))
    error: BaseException | None = caught.value
    told = caplog.text
    while error is not None:
        told += repr(error)
        error = error.__cause__ or error.__context__
    assert not [secret for secret in (KEY[:9], "question that", context) if secret in told]


def test_a_key_that_no_header_can_carry_is_refused_without_being_shown():
    with pytest.raises(ValueError, match="TURNSTONE_MODEL_API_KEY") as caught:
        OpenAICompatibleInference("http://localhost/v1", "secret\nkey")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        (HttpAnswer(404, {"error": "no"}), "the list of models not found"),
        (HttpAnswer(401, {"error": "no"}), "TURNSTONE_MODEL_API_KEY"),
        (HttpAnswer(200, b"<html>"), "does not list models"),
        (HttpAnswer(200, {"data": [{}]}), "does not list models"),
        (HttpAnswer(200, {"models": []}), "does not list models"),
    ],
)
def test_models_that_cannot_be_listed_fail(listed: HttpAnswer, said: str):
    with ModelServer(listed=listed) as server, pytest.raises(ModelFailed, match=said):
        OpenAICompatibleInference(server.url, None).models()
