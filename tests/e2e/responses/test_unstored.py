"""OpenAI's own client, unmodified: a response with store=false leaves nothing at rest, though its tools ran.

Covers: services/responses/unstored, store/responses/unstored
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.openai_answers import Answer, Pause, text_answer, text_chunk
from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.client_script import run_script
from tests.support.server.servers import ServerProcess

pytestmark = pytest.mark.timeout(120)
WORD = "xylofonterapeut"
PATIENCE_S = 10.0


def repeated(body: Mapping[str, Any]) -> Answer:
    return text_answer(" | ".join(str(each["content"]) for each in body["messages"] if each["role"] == "user"))


def test_nothing_of_it_is_at_rest(tmp_path: Path) -> None:
    with ModelServer(repeated) as model, ServerProcess(tmp_path, model_url=model.url) as server:
        seen = run_script("openai", "openai_unstored", server.url + "/v1/openai/v1", WORD)
        paths = [path for path in tmp_path.rglob("*") if path.is_file()]
        holding = [path for path in paths if WORD.encode() in path.read_bytes()]
    text = f"Is it {WORD}?"
    assert seen["whole"] == [text, False]
    assert seen["streamed"] == [text, list(range(len(seen["streamed"][1])))]
    assert seen["missing"] == [["NotFoundError", None]] * 3
    assert seen["after"] == f"earlier | {text}"
    assert seen["refused"] == [["BadRequestError", "store"], ["BadRequestError", "background"]]
    assert seen["listed"] == [True]
    assert len(paths) > 1
    assert holding == []


@pytest.mark.parametrize(("way", "left"), [("whole", "without an answer"), ("streamed", "Once")])
def test_a_client_that_leaves_ends_the_request_to_the_model(way: str, left: str, tmp_path: Path) -> None:
    endless = (text_chunk("Once"), *[Pause(0.05), text_chunk(" more")] * 2_000)
    with ModelServer(lambda _: endless) as model, ServerProcess(tmp_path, model_url=model.url) as server:
        assert run_script("openai", "openai_leaves", server.url + "/v1", way) == {"left": left}
        left_at = time.monotonic()
        while model.open_connections:
            assert time.monotonic() - left_at < PATIENCE_S, "the model still answers"
            time.sleep(0.02)
