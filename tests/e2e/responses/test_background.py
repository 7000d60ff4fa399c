"""OpenAI's own client, unmodified: a response in the background survives a kill, and another is cancelled.

Covers: functions/responses, services/responses/responses
"""

from __future__ import annotations

import pytest

from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.client_script import run_script
from tests.support.server.served import ONE_SECOND, WORDS, Served

pytestmark = pytest.mark.timeout(120)


def test_killed_after_queued_and_in_the_middle_it_completes_once(served: Served, model: ModelServer) -> None:
    server, _ = served(lease_seconds=1)
    base_url = server.url + "/v1/openai/v1"
    begun = run_script("openai", "openai_background", base_url, "begin", ONE_SECOND)
    assert begun["status"] == "queued"
    server.restart()
    ended = run_script("openai", "openai_background", base_url, "wait", begun["id"])
    assert (ended["status"], ended["text"]) == ("completed", WORDS)
    assert ended["numbers"] == list(range(len(ended["numbers"])))
    assert ended["kinds"][:3] == ["response.created", "response.queued", "response.in_progress"]
    assert len(model.requests) <= 2


def test_it_is_streamed_and_cancelled(served: Served) -> None:
    server, _ = served()
    seen = run_script("openai", "openai_background", server.url + "/v1/openai/v1", "cancel", "stream-20")
    assert seen["kinds"][:3] == ["response.created", "response.queued", "response.in_progress"]
    assert seen["cancelled"] == ["cancelled", "cancelled", "cancelled"]
    assert seen["refused"] == ["BadRequestError", "response_id"]
