"""Text completions and stored chat completions through the official clients and OpenAI's own.

Covers: functions/inference, functions/stored_completions
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.openai_answers import Pause, prompt_answer, prompt_chunk
from tests.fakes.models.openai_server import ModelServer
from tests.support.cases import rest_at_night
from tests.support.clients.client_script import run_script
from tests.support.server.servers import ServerProcess

VERSIONS = ("0.2.12", "0.2.23", "0.3.5")
WORDS = (" a", " time", " there", " was", " a", " server")
CONTINUED = "".join(WORDS)
PREFIXES = ("/v1", "/v1/openai/v1")
PATIENCE_S = 10.0
pytestmark = pytest.mark.timeout(120)


def continues(_: dict[str, Any]) -> Any:
    return prompt_answer(*WORDS)


@pytest.mark.parametrize("version", rest_at_night(VERSIONS, always=("0.2.23",)))
def test_a_model_server_continues_texts_for_the_official_client(version: str, tmp_path: Path) -> None:
    with ModelServer(complete=continues) as model, ServerProcess(tmp_path, model_url=model.url) as server:
        seen = run_script(version, "completions", server.url, "m")
    assert seen["whole"] == seen["streamed"] == CONTINUED
    assert (seen["finish"], seen["end"], seen["object"]) == ("stop", "stop", "text_completion")
    assert seen["several"] == [[0, "One"], [1, "Two"]]
    assert seen["tokens"] == [400, "prompt"]
    if "inferred" not in seen:
        assert version == "0.3.5"
        return
    assert seen["inferred"] == seen["inferred_chunks"] == seen["inferred_contents"] == CONTINUED
    assert seen["stop_reason"] == seen["last_reason"] == "end_of_turn"
    assert seen["metrics"] == ["completion_tokens", "prompt_tokens", "total_tokens"]
    assert {request["prompt"] for request in model.requests} >= {"Once upon", "One", "Two"}
    assert all("messages" not in request for request in model.requests)


def test_a_model_server_continues_texts_for_openais_own_client(tmp_path: Path) -> None:
    with ModelServer(complete=continues) as model, ServerProcess(tmp_path, model_url=model.url) as server:
        for prefix in PREFIXES:
            seen = run_script("openai", "openai_completions", server.url + prefix, "m", "stay")
            assert (seen["whole"], seen["total"], seen["object"]) == (CONTINUED, 9, "text_completion")
            assert seen["streamed"] == [CONTINUED, CONTINUED]
            assert (seen["ends"], seen["last"]) == (["stop", "stop"], [[], 18])
            assert seen["refused"] == {name: [400, name] for name in ("n", "best_of", "logprobs", "prompt")}


def test_a_model_server_without_the_route_is_called_with_a_chat(tmp_path: Path) -> None:
    with ModelServer() as model, ServerProcess(tmp_path, model_url=model.url) as server:
        seen = run_script("openai", "openai_completions", server.url + "/v1", "words-50", "stay")
    assert seen["whole"].startswith("word0 word1")
    assert model.requests[0]["messages"] == [{"role": "user", "content": "Once upon"}]


def test_a_client_that_disconnects_ends_the_request_to_the_model(tmp_path: Path) -> None:
    endless = (prompt_chunk("Once"), *[Pause(0.05), prompt_chunk(" more")] * 2_000)
    with ModelServer(complete=lambda _: endless) as model, ServerProcess(tmp_path, model_url=model.url) as server:
        assert run_script("openai", "openai_completions", server.url + "/v1", "m", "leave") == {"first": "Once"}
        left_at = time.monotonic()
        while model.open_connections:
            assert time.monotonic() - left_at < PATIENCE_S, "the model still answers"
            time.sleep(0.02)


@pytest.mark.parametrize("version", rest_at_night(VERSIONS, always=("0.3.5",)))
def test_stored_chat_completions_are_listed_and_read_by_the_official_client(version: str, tmp_path: Path) -> None:
    with ModelServer() as model, ServerProcess(tmp_path, model_url=model.url) as server:
        seen = run_script(version, "stored_completions", server.url, "instant")
    newest_first = seen["ids"][::-1]
    assert seen["listed"] == (newest_first[:2] if version == "0.2.12" else newest_first)
    assert seen["oldest"] == seen["ids"]
    assert seen["of_another_model"] == []
    assert seen["text"]
    assert (seen["model"], seen["object"]) == ("instant", "chat.completion")
    assert seen["asked"] == [["system", "Be brief."], ["user", "question 1"]]
    assert seen["missing"] == 404


@pytest.mark.parametrize("prefix", rest_at_night(PREFIXES, always=PREFIXES[:1]))
def test_openais_own_client_manages_stored_chat_completions(prefix: str, tmp_path: Path) -> None:
    with ModelServer() as model, ServerProcess(tmp_path, model_url=model.url) as server:
        seen = run_script("openai", "openai_stored", server.url + prefix, "instant")
    ids = seen["ids"]
    assert seen["listed"] == ids[::-1]
    assert seen["oldest"] == ids
    assert seen["with_metadata"] == [ids[1]]
    assert seen["text"]
    assert seen["total"] > 0
    assert seen["metadata"] == {"number": "0"}
    assert seen["updated"] == seen["reread"] == {"topic": "new"}
    assert seen["messages"] == [[f"{ids[0]}-0", "user", None, "question 0"]]
    assert seen["streamed"] is True
    assert seen["deleted"] == [True, True, "chat.completion.deleted"]
    assert seen["gone"] == 404
    assert seen["left"] == ids[:0:-1]
