"""The official clients, and OpenAI's own, ask models directly: whole, streamed, with tools, and for embeddings."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.e2e.client_script import run_script
from tests.fakes.openai_answers import Pause, text_chunk
from tests.fakes.openai_server import ModelServer
from tests.servers import ServerProcess

VERSIONS = ("0.2.12", "0.2.20", "0.3.5")
WORDS = "".join(f"word{number} " for number in range(50))
PATIENCE_S = 10.0
pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_model_server_is_asked_through_the_official_client(version: str, tmp_path: Path) -> None:
    with ModelServer() as model, ServerProcess(tmp_path, model_url=model.url) as server:
        told = run_script(version, "inference", server.url, "words-50")
        calling = run_script(version, "inference", server.url, "tool:add")
    assert told["openai_whole"] == told["openai_streamed"] == WORDS
    assert told["openai_finish"] == told["openai_end"] == "stop"
    assert (calling["openai_called"], calling["openai_stop"]) == (["add"], "tool_calls")
    assert told["openai_vectors"] == [[3.0, 0.0, 0.0], [5.0, 1.0, 0.0]]
    assert told["openai_tokens"] == 7
    assert told["refused"] == [400, "n"]
    if version == "0.3.5":
        return
    assert told["whole"] == told["streamed"] == WORDS
    assert told["metrics"] == ["completion_tokens", "prompt_tokens", "total_tokens"]
    assert (told["first"], told["last"]) == ("start", ["complete", "end_of_turn"])
    assert told["kinds"] == ["complete", "progress", "start"]
    assert (calling["called"], calling["stop_reason"]) == ([["add", {}]], "end_of_message")
    assert calling["called_in_stream"] == [["add", "succeeded"]]
    assert told["vectors"] == told["openai_vectors"]


def test_openais_own_client_is_served(tmp_path: Path) -> None:
    with ModelServer() as model, ServerProcess(tmp_path, model_url=model.url) as server:
        for prefix in ("/v1", "/v1/openai/v1"):
            told = run_script("openai", "openai_client", server.url + prefix, "words-50", "stay")
            assert told["whole"] == told["streamed"] == WORDS
            assert (told["total"], told["last"]) == (60, [[], 60])
            assert told["vectors"] == [[3.0, 0.0, 0.0], [5.0, 1.0, 0.0]]
            assert told["refused"][:3] == [400, "n", "invalid_request_error"]
        called = run_script("openai", "openai_client", server.url + "/v1", "tool:add", "stay")["called"]
    assert called == ["add"]


def test_who_hangs_up_has_the_model_hang_up(tmp_path: Path) -> None:
    endless = (text_chunk("Once"), *[Pause(0.05), text_chunk(" more")] * 2_000)
    with ModelServer(lambda _: endless) as model, ServerProcess(tmp_path, model_url=model.url) as server:
        assert run_script("openai", "openai_client", server.url + "/v1", "m", "leave") == {"first": "Once"}
        left_at = time.monotonic()
        while model.open_connections:
            assert time.monotonic() - left_at < PATIENCE_S, "the model still answers"
            time.sleep(0.02)
