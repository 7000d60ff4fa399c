"""The optional fields that OpenAI's own client sends, and the errors that it raises.

Covers: dialects/openai/chat, functions/inference
"""

from __future__ import annotations

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
    listed,
    text_chunk,
)
from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.client_script import run_script
from tests.support.server.servers import ServerProcess

pytestmark = pytest.mark.timeout(120)


def rated(text: str) -> dict[str, Any]:
    made = text_chunk(text)
    entry = {"token": text, "logprob": -0.5, "bytes": None, "top_logprobs": []}
    made["choices"][0]["logprobs"] = {"content": [entry]}
    return made


ANSWERS: dict[str, Answer] = {
    "calls": call_answer(("Add", '{"a": 1, "b": 2}')),
    "words": (rated("one "), rated("two"), *ending("stop")),
    "gone": error_answer(404, "The model `gone` does not exist"),
    "busy": HttpAnswer(429, {"error": {"message": "slow down"}}, {"Retry-After": "17"}),
    "breaks": (text_chunk("Once"), Pause(0.05), BreakOff()),
}


@pytest.mark.parametrize("prefix", ["/v1", "/v1/openai/v1"])
def test_openais_own_client_is_served_with_all_it_sends(tmp_path: Path, prefix: str) -> None:
    script = {**ANSWERS}
    with (
        ModelServer(lambda body: script[body["model"]], listed=listed("calls", "meta-llama/big")) as model,
        ServerProcess(tmp_path, model_url=model.url) as server,
    ):
        seen = run_script("openai", "openai_fields", server.url + prefix, "calls")
    calling, whole, streamed = model.requests[:3]
    assert seen["parsed"] == {"a": 1, "b": 2}
    assert calling["tools"][0]["function"]["strict"] is True
    assert calling["messages"] == [{"role": "user", "name": "ann", "content": "hello"}]
    assert (whole["logprobs"], whole["top_logprobs"], whole["metadata"]) == (True, 1, {"a": "b"})
    assert (streamed["top_k"], streamed["chat_template_kwargs"]) == (3, {"x": 1})
    assert seen["logprobs"] == seen["streamed"] == ["one ", "two"]
    models = [[name, "model", 0, "default"] for name in ("calls", "meta-llama/big")]
    assert seen["models"] == [*models, ["static", "model", 0, "turnstone-embeddings"]]
    assert seen["retrieved"] == "meta-llama/big"
    assert [each[:4] for each in seen["raised"]] == [
        ["NotFoundError", "invalid_request_error", "model_not_found", None],
        ["NotFoundError", "invalid_request_error", "model_not_found", None],
        ["RateLimitError", "rate_limit_error", "rate_limit_exceeded", "17"],
        ["BadRequestError", "invalid_request_error", "invalid_request", None],
        ["InternalServerError", "server_error", "not_implemented", None],
        ["InternalServerError", "server_error", "not_implemented", None],
        ["APIError", "server_error", "model_failed", None],
    ]
    sentences = " ".join(each[4] for each in seen["raised"])
    expected = ("model 'none' not found", "slow down", "n: ", "fine_tuning.jobs.list", "videos.list")
    assert all(words in sentences for words in expected)
    assert str(model.port) not in sentences
