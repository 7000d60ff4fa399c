"""A model that falls silent blocks no caller: neither a cancellation nor a deletion, nor the next turn.

Covers: services/turns/cancelling, adapters/models/openai/openai_compatible
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

from tests.fakes.models.openai_answers import Answer, Pause, built_in_answer, ending, text_chunk
from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.plain_client import turn_body
from tests.support.server.served import Served
from tests.support.server.servers import wait_until

AT_ONCE_S = 10
SILENCE_S = 60


@pytest.fixture
def model() -> Iterator[ModelServer]:
    def answer(body: Mapping[str, Any]) -> Answer:
        if body["model"] == "silent":
            return (text_chunk("a word"), Pause(SILENCE_S), *ending("stop"))
        return built_in_answer(body)

    with ModelServer(answer) as server:
        yield server


@pytest.mark.parametrize("how", ["cancelled", "deleted"])
def test_its_slot_is_free_as_soon_as_its_turn_is_cancelled_or_deleted(served: Served, how: str) -> None:
    server, client = served(max_running_turns=1, place_wait_seconds=0)
    session, other = client.open_session("silent"), client.open_session()
    with client.streaming(f"{session}/turn", turn_body("a story")) as events:
        turn_id = next(events)["turn_id"]
        assert client.post(f"{other}/turn", turn_body("hello")).status_code == 503
        if how == "cancelled":
            assert client.post(f"{session}/turn/{turn_id}/cancel", {}).status_code == 200
        else:
            assert httpx.delete(server.url + session).status_code == 204
        assert "error" in list(events)[-1]

    def is_answered() -> bool:
        return client.post(f"{other}/turn", turn_body("hello")).status_code == 200

    wait_until(is_answered, AT_ONCE_S, "the turn's slot was not released")
