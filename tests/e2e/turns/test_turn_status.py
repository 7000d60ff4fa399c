"""The status of a turn, which its body does not show, is a header of the answer.

Covers: functions/turns, services/turns/reading
"""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.fakes.models.openai_server import ModelServer
from tests.support.clients.plain_client import PlainClient, turn_body
from tests.support.server.served import TOOL
from tests.support.server.servers import ServerProcess


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ModelServer() as model, ServerProcess(tmp_path, model_url=model.url) as running:
        yield running


def test_a_read_turn_has_a_header_with_its_status(server: ServerProcess) -> None:
    with PlainClient(server.url) as client:
        session = client.open_session(f"tool:{TOOL['name']}", client_tools=[TOOL])
        waiting = client.post(f"{session}/turn", turn_body("one")).json()["turn_id"]
        assert status_of(server, session, waiting) == "awaiting_input"
        client.post(f"{session}/turn", turn_body("two"))
        assert status_of(server, session, waiting) == "cancelled"
        plain = client.open_session()
        turn = client.post(f"{plain}/turn", turn_body("three")).json()["turn_id"]
        assert status_of(server, plain, turn) == "completed"


def status_of(server: ServerProcess, session: str, turn_id: str) -> str:
    return httpx.get(f"{server.url}{session}/turn/{turn_id}").headers["x-turn-status"]
