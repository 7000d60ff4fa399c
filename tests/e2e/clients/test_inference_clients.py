"""A client that disconnects during an answer ends the request to the model.

Covers: services/models/answer_stream, functions/inference
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.fakes.models.openai_answers import Pause, text_chunk
from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.client_script import run_script
from tests.support.server.servers import ServerProcess

PATIENCE_S = 10.0
pytestmark = pytest.mark.timeout(120)


def test_a_client_that_disconnects_ends_the_request_to_the_model(tmp_path: Path) -> None:
    endless = (text_chunk("Once"), *[Pause(0.05), text_chunk(" more")] * 2_000)
    with ModelServer(lambda _: endless) as model, ServerProcess(tmp_path, model_url=model.url) as server:
        assert run_script("openai", "leaving", server.url + "/v1") == {"first": "Once"}
        left_at = time.monotonic()
        while model.open_connections:
            assert time.monotonic() - left_at < PATIENCE_S, "the model still answers"
            time.sleep(0.02)
