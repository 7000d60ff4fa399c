"""OpenAI's own client, unmodified: a first request whose answer it did not wait for is sent again, and runs once.

Covers: store/responses/attempts, services/responses/responses
"""

from __future__ import annotations

import pytest

from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.client_script import run_script
from tests.support.server.served import Served

pytestmark = pytest.mark.timeout(120)
CLIENT_TIMEOUT_S = "1"
SLOW = "slow-3"


def test_a_request_whose_answer_was_lost_runs_once(served: Served, model: ModelServer) -> None:
    server, _ = served()
    seen = run_script("openai", "openai_sent_again", server.url + "/v1/openai/v1", SLOW, CLIENT_TIMEOUT_S)
    assert seen["whole"] == ["ok", "ok"]
    assert [body["model"] for body in model.requests] == [SLOW, "instant", "instant"]
    assert (seen["equal"], seen["listed"]) == (2, 3)
