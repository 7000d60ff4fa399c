"""OpenAI's own client at the routes of responses, unmodified, under both prefixes.

Covers: functions/responses, dialects/openai/responses, services/responses
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.models.openai_answers import (
    Answer,
    call_answer,
    chunk,
    error_answer,
    text_answer,
)
from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.client_script import run_script
from tests.support.server.servers import ServerProcess

pytestmark = pytest.mark.timeout(120)
ANSWERS: dict[str, Answer] = {
    "words": text_answer("Hello ", "the", "re 😀"),
    "calls": call_answer(("Add", '{"a": 1}')),
    "thinks": (chunk({"reasoning_content": "Hm, "}), chunk({"reasoning_content": "so."}), *text_answer("Yes.")),
    "json": text_answer('{"city": ', '"Bern"}'),
    "cut": text_answer("Once upon", finish_reason="length"),
    "broken": error_answer(500, "out of order"),
}
MESSAGE = ["output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done"]


@pytest.mark.parametrize("prefix", ["/v1", "/v1/openai/v1"])
def test_openais_own_client_gets_responses(tmp_path: Path, prefix: str) -> None:
    with (
        ModelServer(lambda body: ANSWERS[body["model"]]) as model,
        ServerProcess(tmp_path, model_url=model.url) as server,
    ):
        seen = run_script("openai", "openai_responses", server.url + prefix)
    assert seen["first"][:2] == ["Hello there 😀", "completed"]
    assert seen["first"][3:] == [{"a": "b"}, "Be kind."]
    assert seen["same"] is True
    assert seen["second"] == [True, "Hello there 😀"]
    for name in ("text", "calls", "thoughts"):
        assert (seen[name]["contiguous"], seen[name]["is_same"]) == (True, True), seen[name]
    kinds = [kind.removeprefix("response.") for kind in seen["text"]["kinds"]]
    assert list(dict.fromkeys(kinds)) == ["created", "in_progress", *MESSAGE, "output_item.done", "completed"]
    assert "response.reasoning_text.delta" in seen["thoughts"]["kinds"]
    assert "response.function_call_arguments.delta" in seen["calls"]["kinds"]
    assert seen["call"] == ["function_call", "Add", {"a": 1}]
    assert seen["answered"] == seen["stateless"] == "Hello there 😀"
    assert seen["parsed"] == "Bern"
    assert seen["items"] == [["message", "again"]]
    assert seen["cut"] == ["incomplete", "max_output_tokens"]
    assert seen["failed"] == ["failed", "server_error"]
    assert [each[:2] for each in seen["raised"]] == [
        ["NotFoundError", None],
        ["NotFoundError", None],
        ["BadRequestError", "input[0].call_id"],
        ["BadRequestError", "tools[0].type"],
        ["BadRequestError", "prompt"],
        ["NotFoundError", None],
        ["NotFoundError", None],
    ]
    assert seen["kept"] is True
