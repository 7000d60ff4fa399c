"""Making images, with loopback models whose requests and answers have the form of the real ones.

Covers: adapters/aws/aws_clients, adapters/models/bedrock/bedrock_client, adapters/models/openai/model_access,
  adapters/tools/images/bedrock_image_bodies, adapters/tools/images/bedrock_images, adapters/tools/images/images,
  adapters/tools/images/openai_images, adapters/tools/images/photogen
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.models.bedrock_server import BedrockServer
from tests.fakes.models.image_models import JPEG, KEY, PNG, WEBP, bedrock_images, encoded, openai_images
from tests.fakes.models.openai_answers import HangUp, HttpAnswer
from tests.fakes.tools.tool_calls import ASKER, invocation
from tests.fakes.web.web_server import WebAnswer, WebRequest, WebServer, json_answer
from turnstone.adapters.aws.aws_clients import AwsClients
from turnstone.adapters.models.bedrock.bedrock_client import build_bedrock_client
from turnstone.adapters.models.openai.model_access import ModelAccess
from turnstone.adapters.tools.images.bedrock_image_bodies import body_of
from turnstone.adapters.tools.images.bedrock_images import BedrockImages
from turnstone.adapters.tools.images.images import MAX_IMAGE_BYTES, ImageModel
from turnstone.adapters.tools.images.openai_images import OpenAICompatibleImages
from turnstone.adapters.tools.images.photogen import PhotogenToolbox
from turnstone.domain.errors import StoreUnavailable, ToolFailed
from turnstone.domain.tools.tool_runs import ToolResult
from turnstone.domain.values.cancellation import StopSignal

NOVA = "amazon.nova-canvas-v1:0"
STABILITY = "stability.stable-image-core-v1:1"
REGION = "us-east-1"
IMAGE = {"query": "a red door in the rain"}


def made(model: ImageModel | Callable[[], ImageModel], **call: Any) -> ToolResult:
    box = PhotogenToolbox(model if callable(model) else lambda: model)
    return box.invoke(invocation("photogen", call.pop("arguments", IMAGE), **call))


def of_openai(server: WebServer, model: str = "gpt-image-1", key: str | None = KEY) -> OpenAICompatibleImages:
    return OpenAICompatibleImages(f"{server.url}/v1", ModelAccess(key, "openai_api_key"), model, "1024x1536")


@pytest.fixture
def of_bedrock(monkeypatch: pytest.MonkeyPatch) -> Callable[..., BedrockImages]:
    """Sign with made-up credentials, and with none of this machine."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAMADEUP")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "made-up")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")

    def images(server: BedrockServer | WebServer, model: str = NOVA, size: str = "1024x1024") -> BedrockImages:
        monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", server.url)
        return BedrockImages(lambda: build_bedrock_client(AwsClients(), REGION, 5), model, size)

    return images


@pytest.mark.parametrize("model", ["gpt-image-1", "openai/gpt-image-1.5", "dall-e-3"])
def test_an_openai_model_s_image_becomes_a_file(model: str) -> None:
    with WebServer(openai_images) as server:
        result = made(of_openai(server, model))
    (file,) = result.files
    assert (file.mime_type, file.body, file.name.endswith(".png")) == ("image/png", PNG, True)
    assert file.name in str(result.content)
    (request,) = server.requests
    sent = request.json_body
    by_value = {} if "gpt-image" in model else {"response_format": "b64_json"}
    assert sent == {"model": model, "prompt": IMAGE["query"], "n": 1, "size": "1024x1536", **by_value}


def test_a_caller_s_own_key_goes_before_the_server_s() -> None:
    with WebServer(openai_images) as server:
        assert made(of_openai(server, key="wrong"), provider_data={"openai_api_key": KEY}).files
        with pytest.raises(ToolFailed, match="401") as caught:
            made(of_openai(server), provider_data={"openai_api_key": "sk-of-the-caller"})
    assert "sk-of-the-caller" not in str(caught.value)


def test_a_model_that_refuses_is_quoted_without_the_prompt() -> None:
    prompt = "something forbidden that nobody else shall read"
    with WebServer(openai_images) as server, pytest.raises(ToolFailed, match="safety system") as caught:
        made(of_openai(server), arguments={"query": prompt})
    assert prompt not in str(caught.value)


@pytest.mark.parametrize(
    ("image", "mime_type", "suffix"), [(JPEG, "image/jpeg", ".jpg"), (WEBP, "image/webp", ".webp")]
)
def test_the_type_of_an_image_is_that_of_its_first_bytes(image: bytes, mime_type: str, suffix: str) -> None:
    with WebServer(lambda _: json_answer({"data": [{"b64_json": encoded(image)}]})) as server:
        (file,) = made(of_openai(server)).files
    assert (file.mime_type, file.name[-len(suffix) :]) == (mime_type, suffix)


@pytest.mark.parametrize(
    ("answer", "error_text"),
    [
        (
            json_answer({"data": [{"b64_json": encoded(b"<svg onload=alert(1)>")}]}),
            "other than a PNG, JPEG, GIF or WebP",
        ),
        (
            json_answer({"data": [{"b64_json": encoded(b"RIFF\x24\x00\x00\x00WAVEfmt ")}]}),
            "other than a PNG, JPEG, GIF or WebP",
        ),
        (json_answer({"data": [{"b64_json": "no base64!"}]}), "decoded"),
        (json_answer({"data": [{"b64_json": "A" * (MAX_IMAGE_BYTES * 4 // 3 + 8)}]}), "over the limit"),
        (json_answer({"data": [{"url": "http://169.254.169.254/"}]}), "without an image"),
        (json_answer({"data": []}), "holds no image"),
        (json_answer([]), "holds no image"),
        (WebAnswer(200, b"<html>", "text/html"), "holds no image"),
        (WebAnswer(404, b"{}"), "404"),
    ],
)
def test_an_answer_without_an_image_fails_the_call(answer: WebAnswer, error_text: str) -> None:
    with WebServer(lambda _: answer) as server, pytest.raises(ToolFailed, match=error_text):
        made(of_openai(server))


@pytest.mark.parametrize("how", ["time", "stop"])
def test_a_silent_model_is_waited_for_until_the_timeout_or_a_cancellation(how: str) -> None:
    is_over = threading.Event()

    def silent(_: WebRequest) -> WebAnswer:
        is_over.wait(10)
        return WebAnswer(500)

    stop = StopSignal()
    with WebServer(silent) as server:
        began = time.monotonic()
        if how == "stop":
            threading.Timer(0.1, stop.set).start()
        with pytest.raises(ToolFailed, match="image"):
            made(of_openai(server), timeout_s=0.1 if how == "time" else 9, stop=stop)
        took_s = time.monotonic() - began
        is_over.set()
    assert took_s < 5


@pytest.mark.parametrize("model", [NOVA, "us.amazon.nova-canvas-v1:0", "amazon.titan-image-generator-v2:0"])
def test_an_amazon_model_s_image_becomes_a_file(of_bedrock: Callable[..., BedrockImages], model: str) -> None:
    with BedrockServer(bedrock_images) as server:
        (file,) = made(of_bedrock(server, model, "1280x720")).files
    assert (file.mime_type, file.body) == ("image/png", PNG)
    assert server.model_requests == [(model, "invoke")]
    (sent,) = server.requests
    config = sent["imageGenerationConfig"]
    assert (config["width"], config["height"], config["numberOfImages"]) == (1280, 720, 1)
    assert sent["textToImageParams"] == {"text": IMAGE["query"]}
    assert "AWS4-HMAC-SHA256" in server.headers[0]["authorization"]


def test_a_stability_model_is_sent_a_ratio(of_bedrock: Callable[..., BedrockImages]) -> None:
    with BedrockServer(bedrock_images) as server:
        (file,) = made(of_bedrock(server, STABILITY, "1536x1024")).files
    assert file.body == PNG
    (sent,) = server.requests
    assert (sent["prompt"], sent["aspect_ratio"], sent["output_format"]) == (IMAGE["query"], "3:2", "png")


def test_a_repeated_call_requests_the_same_image_and_another_call_another(
    of_bedrock: Callable[..., BedrockImages],
) -> None:
    with BedrockServer(bedrock_images) as server:
        names = [made(of_bedrock(server), idempotency_key=key).files[0].name for key in ("a", "a", "b")]
    first, again, other = (request["imageGenerationConfig"]["seed"] for request in server.requests)
    assert first == again != other
    assert names[0] == names[1] != names[2]


@pytest.mark.parametrize(
    ("model", "answer", "error_text"),
    [
        (NOVA, None, "blocked by our filters"),
        (STABILITY, None, "Filter reason: prompt"),
        (NOVA, HttpAnswer(200, {"images": []}), "without an image"),
        (NOVA, HttpAnswer(200, b"[]"), "holds no image"),
        (NOVA, HttpAnswer(200, b"no JSON"), "holds no image"),
        (NOVA, HttpAnswer(429, {"message": "wait"}, {"x-amzn-ErrorType": "ThrottlingException"}), "no more requests"),
        (
            NOVA,
            HttpAnswer(403, {"message": "no"}, {"x-amzn-ErrorType": "AccessDeniedException"}),
            "let this server use",
        ),
        (NOVA, HangUp(), "hung up"),
    ],
)
def test_bedrock_without_an_image_fails_the_call(
    of_bedrock: Callable[..., BedrockImages], model: str, answer: HttpAnswer | HangUp | None, error_text: str
) -> None:
    script = bedrock_images if answer is None else lambda _: answer
    with BedrockServer(script) as server, pytest.raises(ToolFailed, match=error_text):
        made(of_bedrock(server, model), arguments={"query": "forbidden"})
    assert len(server.requests) == 1


def test_a_refusal_of_bedrock_is_quoted_without_the_prompt(of_bedrock: Callable[..., BedrockImages]) -> None:
    with BedrockServer(bedrock_images) as server, pytest.raises(ToolFailed, match="maxLength: 1024") as caught:
        made(of_bedrock(server), arguments={"query": "x" * 2_000})
    assert "xxx" not in str(caught.value)


def test_bedrock_s_answer_that_does_not_end_is_cut_in_time(of_bedrock: Callable[..., BedrockImages]) -> None:
    is_over = threading.Event()

    def slow(_: WebRequest) -> WebAnswer:
        is_over.wait(10)
        return WebAnswer(500)

    with WebServer(slow) as server:
        with pytest.raises(ToolFailed, match=r"0\.3 s"):
            made(of_bedrock(server), timeout_s=0.3)
        is_over.set()


@pytest.mark.parametrize(
    ("model", "size", "error_text"),
    [
        ("amazon.nova-lite-v1:0", "1024x1024", "model: how 'amazon.nova-lite-v1:0'"),
        ("stability.stable-diffusion-xl-v1", "1024x1024", "model: how"),
        (STABILITY, "1000x999", "size: .*16:9"),
    ],
)
def test_a_model_or_size_without_images_in_bedrock_is_refused_beforehand(
    model: str, size: str, error_text: str
) -> None:
    with pytest.raises(ValueError, match=error_text):
        body_of(model, size)


def test_an_unavailable_model_fails_the_call() -> None:
    def missing() -> ImageModel:
        raise StoreUnavailable("AWS can't be used: no region is set")

    with pytest.raises(ToolFailed, match="no region"):
        made(missing)


def test_one_tool_is_offered_and_requires_a_text() -> None:
    box = PhotogenToolbox(lambda: pytest.fail("no model is asked"))
    assert [tool.name for tool in box.tools(ASKER)] == ["photogen"]
    with pytest.raises(ToolFailed, match="query"):
        box.invoke(invocation("photogen", {"query": ""}))
