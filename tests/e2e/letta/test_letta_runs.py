"""Letta's own client, unmodified: a run survives a kill, and another is cancelled by its deletion.

Covers: functions/letta/runs, dialects/letta/turns/runs, services/letta/runs, store/letta/runs, domain/letta/runs
"""

from __future__ import annotations

import pytest

from tests.support.clients.client_script import run_script
from tests.support.server.served import ONE_SECOND, Served

pytestmark = pytest.mark.timeout(120)


def test_a_killed_run_completes(served: Served) -> None:
    server, _ = served(lease_seconds=1)
    base_url = server.url + "/letta"
    begun = run_script("letta", "letta_runs", base_url, "begin", ONE_SECOND)
    assert begun["status"] == "created"
    assert begun["metadata"] == {"job_type": "send_message_async", "agent_id": begun["agent"]}
    assert begun["active"] == begun["listed"] == [begun["id"]]
    server.restart()
    ended = run_script("letta", "letta_runs", base_url, "wait", begun["id"])
    assert (ended["status"], ended["steps"]) == ("completed", 1)
    assert ended["messages"] == ["user_message", *ended["result"]]
    assert ended["of_user"] == ["hi"]
    assert ended["result"] == ["reasoning_message"], "text without a call"
    assert ended["rest"] == ended["result"][:1]
    assert ended["active"] == ended["left"] == []
    assert ended["deleted"] == [begun["id"], "completed"]
    assert ended["gone"] == [404, "run_not_found"]


def test_a_deleted_run_is_cancelled(served: Served) -> None:
    server, _ = served()
    seen = run_script("letta", "letta_runs", server.url + "/letta", "cancel", ONE_SECOND)
    assert seen["deleted"] == [seen["id"], "failed"]
    assert (seen["left"], seen["gone"]) == ([], [404, "run_not_found"])
