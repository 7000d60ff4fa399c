"""The log's line of a request: its path pattern, and its status for a client that left.

Covers: edge/logs, http/server/app
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.models.openai_answers import Pause, text_answer
from tests.fakes.models.openai_server import ModelServer
from tests.support.server.asgi_client import Raw, scope_of, served
from turnstone.edge.logs import JsonLines

REQUEST = {"messages": [{"role": "user", "content": "hello"}]}
DIRECT = {
    "/v1/openai/v1/chat/completions": {"model": "m", **REQUEST},
    "/v1/inference/chat-completion": {"model_id": "m", **REQUEST},
}


def request_lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    lines = [json.loads(JsonLines().format(record)) for record in caplog.records]
    return [line for line in lines if line["logger"] == "turnstone.http.server.request_lines"]


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/docs", "/docs"),
        ("/v1/docs", "/v1/docs"),
        ("/openapi.json", "/openapi.json"),
        ("/v1alpha/agents/none", "/v1alpha/agents/{agent_id}"),
        ("/v1/agents/none", "/v1/agents/{agent_id}"),
        ("/v1/openai/v1/models/a/b", "/v1/openai/v1/models/{model_id}"),
        ("/alpha/health", "/alpha/health"),
    ],
)
def test_a_line_names_the_pattern_that_was_requested(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str, route: str
) -> None:
    with served(tmp_path) as serving, caplog.at_level(logging.INFO, "turnstone.http"):
        serving.client.get(path)
    assert [line["route"] for line in request_lines(caplog)] == [route]


def test_an_alias_of_openai_s_paths_is_named_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with served(tmp_path) as serving, caplog.at_level(logging.INFO, "turnstone.http"):
        assert serving.client.post("/v1/chat/completions", {"model": "offline", **REQUEST}).status == 200
    assert [line["route"] for line in request_lines(caplog)] == ["/v1/chat/completions"]


@pytest.mark.parametrize("path", DIRECT)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_client_that_leaves_before_a_model_answers_is_499(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, path: str, stream: bool
) -> None:
    incoming = [{"type": "http.request", "body": json.dumps({**DIRECT[path], "stream": stream}).encode()}]
    sent: list[Mapping[str, Any]] = []

    async def receive() -> Mapping[str, Any]:
        if not incoming:
            await asyncio.sleep(0.1)
        return incoming.pop() if incoming else {"type": "http.disconnect"}

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    slow = (Pause(5), *text_answer("late"))
    with ModelServer(lambda _: slow) as model, served(tmp_path, model_url=model.url) as serving:
        with caplog.at_level(logging.INFO, "turnstone.http"):
            serving.client._loop.run_until_complete(
                serving.client.app(scope_of(Raw("POST", path.encode())), receive, send)
            )
        serving._settle()
    assert sent == []
    assert [(line["level"], line["status"], line.get("error")) for line in request_lines(caplog)] == [
        ("INFO", 499, None)
    ]
