"""Models that make images, as OpenAI and Bedrock's user guide describe their requests and answers.

Source: the OpenAI API reference, and the inference parameters of Bedrock's image models. No image is in them.
"""

from __future__ import annotations

import base64
from typing import Any

from tests.fakes.models.openai_answers import HttpAnswer
from tests.fakes.web.web_server import WebAnswer, WebRequest, json_answer

PNG = b"\x89PNG\r\n\x1a\n made up"
JPEG = b"\xff\xd8\xff\xe0 made up"
WEBP = b"RIFF\x00\x00\x00\x00WEBP made up"
KEY = "sk-images-0123456789"


def encoded(image: bytes) -> str:
    return base64.b64encode(image).decode()


def openai_images(request: WebRequest) -> WebAnswer:
    """Answer as OpenAI's endpoint: by value only on request, or if the model has no other form."""
    assert (request.method, request.path) == ("POST", "/v1/images/generations")
    if request.headers.get("authorization") != f"Bearer {KEY}":
        return _error(401, f"Incorrect API key provided: {request.headers.get('authorization')}")
    parameters: dict[str, Any] = request.json_body
    is_gpt = parameters["model"].rpartition("/")[2].startswith("gpt-image-")
    if is_gpt and "response_format" in parameters:
        return _error(400, "Unknown parameter: 'response_format'.")
    if "forbidden" in parameters["prompt"]:
        return _error(400, f"Your request was rejected by the safety system: {parameters['prompt']}")
    by_value = is_gpt or parameters.get("response_format") == "b64_json"
    image = {"b64_json": encoded(PNG)} if by_value else {"url": "https://images.test/1.png"}
    return json_answer({"created": 1_713_833_628, "data": [image], "usage": {"total_tokens": 100}})


def bedrock_images(parameters: dict[str, Any]) -> HttpAnswer:
    """Answer as Amazon's models or Stability's, by the request's form."""
    if "taskType" in parameters:
        return _amazon_image(parameters)
    assert set(parameters) <= {"prompt", "mode", "aspect_ratio", "output_format", "seed", "negative_prompt"}
    if "forbidden" in parameters["prompt"]:
        return HttpAnswer(200, {"finish_reasons": ["Filter reason: prompt"]})
    return HttpAnswer(200, {"seeds": [parameters["seed"]], "finish_reasons": [None], "images": [encoded(PNG)]})


def _amazon_image(parameters: dict[str, Any]) -> HttpAnswer:
    assert parameters["taskType"] == "TEXT_IMAGE"
    prompt = parameters["textToImageParams"]["text"]
    config = parameters["imageGenerationConfig"]
    assert 0 <= config["seed"] <= 858_993_459
    if len(prompt) > 1_024:
        body = {"message": f"Malformed input request: expected maxLength: 1024, actual: {prompt}"}
        return HttpAnswer(400, body, {"x-amzn-ErrorType": "ValidationException"})
    if "forbidden" in prompt:
        return HttpAnswer(200, {"images": [], "error": "All of the generated images have been blocked by our filters"})
    return HttpAnswer(200, {"images": [encoded(PNG)] * config["numberOfImages"], "error": None})


def _error(status: int, message: str) -> WebAnswer:
    return json_answer({"error": {"message": message, "type": "invalid_request_error", "code": None}}, status)
