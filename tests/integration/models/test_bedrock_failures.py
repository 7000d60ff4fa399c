"""How BedrockInference fails: its messages, its retries, its cancellation, and the data it never shows.

Covers: adapters/models/bedrock/bedrock, adapters/aws/bedrock_errors
"""

from __future__ import annotations

import logging
import socket
import ssl
import time
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from tests.fakes.models import bedrock_frames as frames
from tests.fakes.models.bedrock_server import BedrockServer
from tests.fakes.models.openai_answers import Answer, BreakOff, HangUp, HttpAnswer, Item, Pause
from tests.fakes.web.certificates import loopback_tls
from tests.support.models.bedrock_client import KEY, QUESTION, SECRET, BedrockAdapters, bedrock_adapters, request
from tests.support.models.model_client import LateStop, texts_of
from turnstone.adapters.models.bedrock.bedrock_wire import BedrockOptions
from turnstone.domain.agents.agents import SamplingParams
from turnstone.domain.errors import InvalidRequest, ModelBusy, ModelFailed, ModelRefused, ModelTimedOut
from turnstone.domain.messages.messages import UserMessage
from turnstone.domain.tools.tools import ToolDef
from turnstone.domain.values.cancellation import StopSignal

__all__ = ["bedrock_adapters"]
SILENCE_S = 20
AT_ONCE_S = 5
OK = frames.text_answer("ok")
STARTED = (frames.START, frames.text("a")[0])


@pytest.fixture(autouse=True)
def no_credentials_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def test_a_request_that_bedrock_calls_invalid_is_distinguished_from_its_other_failures(
    bedrock_adapters: BedrockAdapters,
) -> None:
    for code, kind in (("ValidationException", ModelRefused), ("AccessDeniedException", ModelFailed)):
        with BedrockServer([frames.refusal(400, code, "no")]) as server, pytest.raises(ModelFailed) as caught:
            bedrock_adapters.streamed(server)
        assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            frames.refusal(400, "ValidationException", "too long"),
            r"refused or failed \(ValidationException\): too long",
        ),
        (
            frames.refusal(403, "AccessDeniedException", "no"),
            r"does not let this server use model 'eu\.anthropic.*: no",
        ),
        (frames.refusal(403, "UnrecognizedClientException", "no"), "check its credentials, rights and access"),
        (frames.refusal(404, "ResourceNotFoundException", "no"), r"not found: Bedrock in eu-central-1"),
        (frames.refusal(424, "ModelErrorException", "oh"), r"\(ModelErrorException\): oh"),
        (HttpAnswer(400, b"plain\n  text"), r"refused or failed \(400\): plain text$"),
        (HttpAnswer(400, b""), r"refused or failed \(400\)"),
        (HttpAnswer(200, b"<html>it works</html>"), r"can't talk to Bedrock.*\(ChecksumMismatch\)"),
        ((*STARTED, frames.exception("modelStreamErrorException", "oh")), r"while it answered: .*Exception\): oh"),
        ((*STARTED, frames.exception("throttlingException", "busy")), "while it answered: .*takes no more requests"),
        (
            (*STARTED, frames.exception("validationException", "no")),
            r"while it answered: .*\(ValidationException\): no",
        ),
        ((*STARTED, frames.BROKEN_FRAME), r"broke off \(ChecksumMismatch\)"),
        (STARTED, "broke off before its end"),
        ((), "broke off before its end"),
        ((*STARTED, BreakOff()), "broke off"),
        ((*STARTED, frames.ending()[1]), "broke off before its end"),
        ((frames.START, *frames.ending("malformed_tool_use")), r"can't be read \(malformed_tool_use\)"),
        ((frames.START, *frames.ending("guardrail_intervened")), r"withheld the answer \(guardrail_intervened\)"),
    ],
)
def test_a_failure_has_its_reason_and_is_not_repeated(
    bedrock_adapters: BedrockAdapters, answer: Answer, reason: str
) -> None:
    with BedrockServer([answer, OK]) as server, pytest.raises(ModelFailed, match=reason):
        bedrock_adapters.streamed(server)
    assert len(server.requests) == 1


AT_THE_DOOR = (
    frames.refusal(429, "ThrottlingException", "busy"),
    frames.refusal(429, "ModelNotReadyException", "soon"),
    frames.refusal(500, "InternalServerException", "oh"),
    frames.refusal(503, "ServiceUnavailableException", "later"),
    HttpAnswer(502, b"<html>"),
    HangUp(),
)
IN_THE_STREAM = (
    (frames.exception("throttlingException", "busy"),),
    (frames.START, frames.exception("serviceUnavailableException", "later")),
    (frames.exception("modelStreamErrorException", "oh"),),
)


def test_the_error_of_a_broken_stream_has_its_cause(bedrock_adapters: BedrockAdapters) -> None:
    with BedrockServer([(*STARTED, frames.BROKEN_FRAME)]) as server, pytest.raises(ModelFailed) as caught:
        bedrock_adapters.streamed(server)
    assert type(caught.value.__cause__).__name__ == "ChecksumMismatch"


@pytest.mark.parametrize(
    ("busy", "is_streaming"),
    [*((busy, True) for busy in (*AT_THE_DOOR, *IN_THE_STREAM)), *((busy, False) for busy in AT_THE_DOOR)],
)
def test_a_transient_failure_before_the_answer_is_retried_at_most_twice(
    bedrock_adapters: BedrockAdapters, busy: Any, is_streaming: bool
) -> None:
    options = BedrockOptions(is_streaming=is_streaming)
    fine = OK if is_streaming else frames.whole_answer([{"text": "ok"}])
    with BedrockServer([busy, busy, fine]) as server:
        assert texts_of(bedrock_adapters.streamed(server, options=options)) == ["ok"]
    with BedrockServer([busy, busy, busy, fine]) as server, pytest.raises(ModelFailed) as caught:
        bedrock_adapters.streamed(server, options=options)
    assert len(server.requests) == 3
    assert caught.value.is_outage


def test_a_short_retry_after_is_waited_for_and_a_long_one_is_not(bedrock_adapters: BedrockAdapters) -> None:
    short, long = (frames.refusal(429, "ThrottlingException", "busy", {"Retry-After": wait}) for wait in ("1", "60"))
    with BedrockServer([short, OK]) as server:
        started = time.monotonic()
        assert texts_of(bedrock_adapters.streamed(server)) == ["ok"]
        assert time.monotonic() - started >= 1
    with BedrockServer([long, OK]) as server, pytest.raises(ModelFailed, match="no more requests"):
        bedrock_adapters.streamed(server)
    assert len(server.requests) == 1


def test_an_unreachable_bedrock_is_named_by_its_region(bedrock_adapters: BedrockAdapters) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ModelFailed, match="can't connect to Bedrock in eu-central-1") as caught:
        list(bedrock_adapters.inference(url).stream(request()))
    assert caught.value.is_outage


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ((Pause(5),), "did not answer in time"),
        ((frames.START, Pause(5)), "did not answer in time"),
        ((*STARTED, Pause(5)), "fell silent while it answered"),
        (frames.refusal(408, "ModelTimeoutException", "slow"), r"did not answer in time \(ModelTimeoutException\)"),
    ],
)
def test_silence_before_and_within_an_answer_is_a_timeout_and_not_repeated(
    bedrock_adapters: BedrockAdapters, items: Any, reason: str
) -> None:
    with BedrockServer([items, OK]) as server, pytest.raises(ModelTimedOut, match=reason):
        list(bedrock_adapters.inference(server.url, timeout_s=0.2).stream(request()))
    assert len(server.requests) == 1


def test_without_credentials_nothing_is_sent(
    bedrock_adapters: BedrockAdapters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with BedrockServer([OK]) as server, pytest.raises(ModelFailed, match="no AWS credentials"):
        bedrock_adapters.streamed(server)
    assert not server.requests


def test_a_parameter_that_converse_does_not_offer_is_refused_before_anything_is_sent(
    bedrock_adapters: BedrockAdapters,
) -> None:
    with BedrockServer([OK]) as server, pytest.raises(InvalidRequest, match="repetition_penalty"):
        bedrock_adapters.streamed(server, request(sampling=SamplingParams(repetition_penalty=1.1)))
    assert not server.requests


@pytest.mark.parametrize(
    "wrap",
    [
        lambda echo: frames.refusal(400, "ValidationException", "x" * 490 + echo),
        lambda echo: HttpAnswer(500, echo.encode()),
        lambda echo: (*STARTED, frames.exception("validationException", echo)),
    ],
)
def test_neither_credentials_nor_a_message_nor_an_account_gets_into_an_error_or_a_log(
    bedrock_adapters: BedrockAdapters, wrap: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    context = "a context just as private"
    role = "arn:aws:sts::123456789012:assumed-role/secret-role/x"
    echo = f"{role} asks {QUESTION.content} and {context} in arn:aws:bedrock:eu-central-1:123456789012:model/y"
    with BedrockServer([wrap(echo)] * 3) as server, pytest.raises(ModelFailed) as caught:
        bedrock_adapters.streamed(server, request(QUESTION, UserMessage(content="hi", context=context)))
    error: BaseException | None = caught.value
    shown = caplog.text
    while error is not None:
        shown += repr(error)
        error = error.__cause__ or error.__context__
    secrets = (KEY, SECRET, "question that", context, "secret-role", "123456789012")
    assert not [secret for secret in secrets if secret in shown]


def test_a_request_that_botocore_refuses_is_not_repeated_in_the_error(bedrock_adapters: BedrockAdapters) -> None:
    refused = request(tools=(ToolDef(name="f"),))
    with BedrockServer([OK]) as server, pytest.raises(ModelFailed, match="check the model's id") as caught:
        bedrock_adapters.streamed(server, request(**{**{"model": ""}, "tools": refused.tools}))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


# ---- the stop signal


@pytest.mark.parametrize(
    "answer",
    [
        (Pause(SILENCE_S), *OK),
        (frames.START, Pause(SILENCE_S), *OK[1:]),
        (*STARTED, Pause(SILENCE_S), *frames.ending()),
    ],
    ids=["before its answer", "after the word that it comes", "within its answer"],
)
@pytest.mark.parametrize("is_streaming", [True, False])
def test_a_caller_waiting_for_a_silent_model_is_freed_by_the_signal_without_a_retry(
    bedrock_adapters: BedrockAdapters, answer: tuple[Item, ...], is_streaming: bool
) -> None:
    assert_the_signal_frees(bedrock_adapters, answer, is_streaming=is_streaming)


def test_over_tls_too_an_answer_is_read_and_a_waiting_caller_is_freed(
    bedrock_adapters: BedrockAdapters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls, trusted = loopback_tls(tmp_path)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(trusted))
    server = BedrockServer([OK, OK])
    server.tls = tls
    with server:
        inference = bedrock_adapters.inference(server.url)
        assert [texts_of(list(inference.stream(request()))) for _ in range(2)] == [["ok"]] * 2
    assert server.connections == 1
    assert_the_signal_frees(
        bedrock_adapters, (*STARTED, Pause(SILENCE_S), *frames.ending()), is_streaming=True, tls=tls
    )


def assert_the_signal_frees(
    bedrock_adapters: BedrockAdapters,
    answer: tuple[Item, ...],
    *,
    is_streaming: bool,
    tls: ssl.SSLContext | None = None,
) -> None:
    stop = StopSignal()
    received, failed = Event(), Event()

    def reply(_: object) -> tuple[Item, ...]:
        received.set()
        return answer

    server = BedrockServer(reply)
    server.tls = tls
    with server:
        inference = bedrock_adapters.inference(
            server.url, BedrockOptions(is_streaming=is_streaming), timeout_s=SILENCE_S
        )

        def wait() -> None:
            with pytest.raises(ModelFailed):
                list(inference.stream(request(stop=stop)))
            failed.set()

        waiting = Thread(target=wait)
        waiting.start()
        assert received.wait(AT_ONCE_S)
        assert not failed.wait(0.3)
        stop.set()
        assert failed.wait(AT_ONCE_S)
        waiting.join()
        assert len(server.requests) == server.connections == 1


def test_the_signal_ends_the_wait_for_a_busy_model_without_a_retry(
    bedrock_adapters: BedrockAdapters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstone.adapters.models.bedrock.bedrock.FIRST_BACKOFF_S", 8.0)
    stop = LateStop()

    def reply(_: object) -> HttpAnswer:
        stop.give_soon()
        return frames.refusal(429, "ThrottlingException", "busy")

    with BedrockServer(reply) as server, pytest.raises(ModelBusy):
        list(bedrock_adapters.inference(server.url).stream(request(stop=stop.signal)))
    assert stop.since_s < 6
    assert len(server.requests) == 1


def test_a_signal_that_was_set_before_the_request_cuts_the_connection_once_it_is_open(
    bedrock_adapters: BedrockAdapters,
) -> None:
    stop = StopSignal()
    stop.set()
    with BedrockServer([(Pause(SILENCE_S), *OK)]) as server:
        began = time.monotonic()
        with pytest.raises(ModelFailed):
            list(bedrock_adapters.inference(server.url, timeout_s=SILENCE_S).stream(request(stop=stop)))
        assert time.monotonic() - began < AT_ONCE_S
        while (
            not server.connections or server.open_connections
        ):  # the server accepts the connection only after it was cut
            assert time.monotonic() - began < AT_ONCE_S
            time.sleep(0.01)


def test_a_signal_after_the_answer_leaves_the_kept_connection_to_the_next_request(
    bedrock_adapters: BedrockAdapters,
) -> None:
    stop = StopSignal()
    with BedrockServer([OK, OK]) as server:
        inference = bedrock_adapters.inference(server.url)
        list(inference.stream(request(stop=stop)))
        stop.set()
        assert texts_of(list(inference.stream(request(stop=StopSignal())))) == ["ok"]
    assert server.connections == 1
