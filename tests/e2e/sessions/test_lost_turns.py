"""The official clients, unmodified, read a session with a turn whose content is lost.

Covers: store/sessions/turn_records
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attack.lost_payloads import noise, payloads
from tests.support.clients.client_script import run_script
from tests.support.clients.plain_client import PlainClient, turn_body
from tests.support.server.servers import ServerProcess


@pytest.mark.parametrize("version", ["0.2.12", "0.2.23", "0.3.5"])
def test_a_client_reads_the_rest_of_a_session_and_repeats_no_request_for_a_lost_turn(
    version: str, tmp_path: Path
) -> None:
    with ServerProcess(tmp_path) as server, PlainClient(server.url) as client:
        path = client.open_session("offline", enable_session_persistence=True)
        turn_ids = [
            client.post(f"{path}/turn", turn_body(text)).json()["turn_id"] for text in ("first", noise(), "last")
        ]
        for payload in payloads(server):
            payload.unlink()
        _, _, _, agent_id, _, session_id = path.split("/")
        seen = run_script(version, "lost_turns", server.url, agent_id, session_id, turn_ids[1])
        requests = server.log.count("/turn/{turn_id} 410")
    assert [turn_id for turn_id, _, _ in seen["turns"]] == turn_ids
    assert ["is lost" in content for _, content, _ in seen["turns"]] == [False, True, False]
    assert all(has_ended for _, _, has_ended in seen["turns"])
    assert (seen["status"], requests) == (410, 1)
